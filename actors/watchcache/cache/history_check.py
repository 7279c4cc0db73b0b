"""Check that a store still has the history this cache has applied. Pure.

A store that was restored from a backup or replaced may have a lower revision, or may have grown past ours again, so
revisions alone prove nothing. Therefore each new watch begins a little in the past:
- The changes of the newest RETAINED_REVISIONS revisions must come again, each with the same digest.
- No other change may come between them and our position.
- Revisions that the store has compacted are not expected, nor deletions of the oldest one: if it is the compacted
  revision itself, etcd has removed those, and kept what was put.
"""

from collections import deque
from collections.abc import Iterable
from zlib import crc32

from protocols.errors import NodeplaneError
from protocols.etcd.types import WatchEvent

RETAINED_REVISIONS = 32
"""Revisions that each new watch reads again."""


Digest = tuple[int, int]
"""Sums over the puts and over the deletions of a revision, each positive if there is any."""
NOTHING: Digest = (0, 0)


class HistoryLost(NodeplaneError, grpc="DATA_LOSS"):
    """Raised when the store's data does not continue what this cache has applied: it was restored or replaced.

    The process ends and starts again, so that all followers get the store's own state.
    """


class RecentRevisions:
    """Digests of the newest revisions, oldest first, at most RETAINED_REVISIONS."""

    def __init__(self) -> None:
        self._known: deque[tuple[int, Digest]] = deque(maxlen=RETAINED_REVISIONS)

    def __len__(self) -> int:
        return len(self._known)

    def clear(self) -> None:
        self._known.clear()

    def note(self, events: Iterable[WatchEvent]) -> None:
        """Record events of increasing revisions; only whole revisions."""
        for event in events:
            revision = event.kv.mod_revision
            if self._known and self._known[-1][0] == revision:
                self._known[-1] = (revision, _joined(self._known[-1][1], event))
            else:
                self._known.append((revision, _joined(NOTHING, event)))

    def forget_up_to(self, revision: int) -> None:
        """Drop revisions that the store has compacted: it may send them incompletely."""
        while self._known and self._known[0][0] <= revision:
            self._known.popleft()

    def proof(self, position: int) -> "HistoryCheck":
        return HistoryCheck(dict(self._known), position)


class HistoryCheck:
    """The changes that a new watch must bring up to `position`; call `contradiction` with each batch."""

    def __init__(self, expected: dict[int, Digest], position: int) -> None:
        self._expected = expected
        self._position = position
        self.start = min(expected, default=position + 1)
        """The revision to watch from."""
        self._open: tuple[int, Digest] | None = None
        """The current revision, which the next batch may complete, and its digest so far."""
        self.passed = False
        """True once all expected changes came."""

    def contradiction(self, revision: int, events: Iterable[WatchEvent]) -> str:
        """Compare a batch that is complete up to `revision`; return the difference, empty if there is none."""
        for event in events:
            at = min(event.kv.mod_revision, self._position + 1)
            if self._open is not None and at != self._open[0] and (difference := self._close()):
                return difference
            if at > self._position:
                return self._end()
            self._open = at, _joined(self._open[1] if self._open else NOTHING, event)
        if revision >= self._position:
            return self._close() or self._end()
        return ""

    def _close(self) -> str:
        """Compare the current revision, which is complete."""
        if self._open is None:
            return ""
        (revision, digest), self._open = self._open, None
        expected = self._expected.pop(revision, NOTHING)
        if digest == expected or (revision == self.start and digest == (expected[0], 0)):
            return ""
        return f"revision {revision} holds another change than the one applied here"

    def _end(self) -> str:
        if not self._expected.get(self.start, NOTHING)[0]:
            self._expected.pop(self.start, None)
        if self._expected:
            return f"the change of revision {min(self._expected)} is missing"
        self.passed = True
        return ""


def _joined(digest: Digest, event: WatchEvent) -> Digest:
    """Add an event to its revision's digest; the order of events in a revision does not matter."""
    puts, deletions = digest
    one = 2 + crc32(event.kv.value, crc32(event.kv.key))
    return (puts, deletions + one) if event.deleted else (puts + one, deletions)
