"""Own writes that a replica has applied before the watch cache's events of them. Pure.

The events come later and are compared with what was applied. One is missing or differs if the store's history was
replaced, as by a restored backup, or if the watch cache had to list again after a compaction.
"""

from collections import deque

from actors.apiserver.replica.resync import Snapshot
from actors.apiserver.replica.window import Change
from protocols.messages.objects import DELETED, ObjectEvent, fingerprint

MOST, MOST_BYTES = 1000, 16 * 1024 * 1024
"""Bounds of the changes that may be ahead of the watch cache: it may be away for long."""


class Unconfirmed:
    """Changes ahead of the watch cache, oldest first."""

    def __init__(self) -> None:
        self.mark = 0
        """Revision of the stream's last event or mark: events up to it are repetitions."""
        self._changes: deque[Change] = deque()
        self._bytes = 0

    @property
    def full(self) -> bool:
        return len(self._changes) >= MOST or self._bytes >= MOST_BYTES

    def add(self, change: Change) -> None:
        self._changes.append(change)
        self._bytes += change.size

    def confirm(self, key: str, event: ObjectEvent) -> bool:
        """Take an event that the replica has applied already. Return False if it is not the change applied here."""
        if event.rv <= self.mark:
            return True
        change = self._changes[0] if self._changes else None
        if change is None or (change.rv, change.key) != (event.rv, key):
            return False
        self._drop_first()
        return change.after is None if event.type == DELETED else _raw(change) == event.object

    def pass_mark(self, mark: int) -> bool:
        """Take the stream's mark. Return False if the event of an applied change did not come."""
        self.mark = max(self.mark, mark)
        return not self._changes or self._changes[0].rv > mark

    def confirm_up_to(self, mark: int) -> None:
        """Drop changes that a snapshot at `mark` was compared with."""
        self.mark = max(self.mark, mark)
        while self._changes and self._changes[0].rv <= mark:
            self._drop_first()

    def start_over(self, mark: int) -> None:
        """Forget all changes; `mark` may go back."""
        self.mark, self._bytes = mark, 0
        self._changes.clear()

    def on_top_of(self, snapshot: Snapshot, mark: int) -> tuple[Snapshot, int]:
        """Return a snapshot of an older revision, and its mark, with the changes after it applied."""
        later = [change for change in self._changes if change.rv > mark]
        if not later or mark < self.mark:
            return snapshot, mark
        stored = dict(snapshot.stored)
        for change in later:
            if change.after is None:
                stored.pop(change.key, None)
            else:
                stored[change.key] = change.after
        return Snapshot(stored, snapshot.history, snapshot.floor), later[-1].rv

    def digest_after(self, mark: int) -> int:
        """Return what the changes after `mark` have added to the digest of all objects."""
        added = 0
        for change in self._changes:
            if change.rv > mark:
                before, after = change.before, change.after
                added += fingerprint(after.key, after.rv, after.raw) if after else 0
                added -= fingerprint(before.key, before.rv, before.raw) if before else 0
        return added

    def _drop_first(self) -> None:
        self._bytes -= self._changes.popleft().size


def _raw(change: Change) -> bytes | None:
    return change.after.raw if change.after else None
