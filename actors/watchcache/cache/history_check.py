"""Prove that a store still has the history this cache has applied. Pure.

A store restored from a backup, or replaced, may have a lower revision, or have grown past ours again. The revision
alone proves nothing then, so each new watch begins a little in the past: the changes of the newest revisions must come
again, each the same, and no other between them and our position.
"""

from collections import deque
from collections.abc import Iterable
from typing import ClassVar
from zlib import crc32

from protocols.errors import NodeplaneError
from protocols.etcd import WatchEvent

REMEMBERED = 32
"""Revisions read again by each new watch."""


class HistoryLost(NodeplaneError):
    """Raised when the store's data is not a continuation of what this cache has applied: it was restored from a backup
    or replaced. The process ends and starts anew, so that all followers get the store's own state."""

    grpc: ClassVar[str] = "DATA_LOSS"


class Lineage:
    """Digests of the newest revisions, oldest first; memory is bounded by REMEMBERED."""

    def __init__(self) -> None:
        self._known: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)
        """(revision, digest); a revision of deletions only has a digest below zero."""

    def __len__(self) -> int:
        return len(self._known)

    def clear(self) -> None:
        self._known.clear()

    def note(self, events: Iterable[WatchEvent]) -> None:
        """Remember events of increasing revisions; whole revisions only."""
        for event in events:
            revision = event.kv.mod_revision
            if self._known and self._known[-1][0] == revision:
                self._known[-1] = (revision, _joined(self._known[-1][1], event))
            else:
                self._known.append((revision, _joined(-1, event)))

    def forget_up_to(self, revision: int) -> None:
        """The store has compacted these; it may tell them incompletely."""
        while self._known and self._known[0][0] <= revision:
            self._known.popleft()

    def proof(self, position: int) -> "Proof":
        return Proof(dict(self._known), position)


class Proof:
    """What a new watch must bring up to `position`; ask `contradiction` after each batch."""

    def __init__(self, expected: dict[int, int], position: int) -> None:
        self._expected = expected
        self._position = position
        self.start = min(expected, default=position + 1)
        """The revision to watch from."""
        self._open: tuple[int, int] | None = None
        """The revision under way, which the next batch may complete, and its digest so far."""
        self.given = False
        """Everything expected has come."""

    def contradiction(self, revision: int, events: Iterable[WatchEvent]) -> str:
        """Take a batch that is complete up to `revision`; return what differs, empty while nothing does."""
        for event in events:
            at = min(event.kv.mod_revision, self._position + 1)
            if self._open is not None and at != self._open[0] and (found := self._close()):
                return found
            if at > self._position:
                return self._end()
            self._open = at, _joined(self._open[1] if self._open else -1, event)
        if revision >= self._position:
            return self._close() or self._end()
        return ""

    def _close(self) -> str:
        """The open revision is complete."""
        if self._open is None:
            return ""
        (revision, digest), self._open = self._open, None
        if self._expected.pop(revision, None) == digest:
            return ""
        return f"revision {revision} holds another change than the one applied here"

    def _end(self) -> str:
        if self._expected.get(self.start, 0) < 0:  # etcd compacts a deletion at exactly the compacted revision
            del self._expected[self.start]
        if self._expected:
            return f"the change of revision {min(self._expected)} is missing"
        self.given = True
        return ""


def _joined(digest: int, event: WatchEvent) -> int:
    """Add an event to its revision's digest, which begins at -1: the order of events in a revision does not count, and
    the sign tells whether all of them are deletions."""
    one = 2 + crc32(event.kv.value, crc32(event.kv.key))
    so_far = abs(digest) + one
    return -so_far if digest < 0 and event.deleted else so_far
