"""The watch window: recent changes of one resource, from which watches resume. Pure; callers pass monotonic time.

- Above `floor` the history has no gap, so a watch from revision N can be served exactly when N >= floor.
- Appending beyond capacity or `max_bytes` evicts the oldest change and raises the floor to its revision.
- A full window doubles if its oldest change is younger than `target_age`, and halves if its newest quarter is older.
- Progress notifications without events move neither floor nor changes: an idle resource stays resumable.
"""

from collections import deque
from itertools import dropwhile

import msgspec

from protocols.messages.objects import WINDOW_BYTES, ObjectEvent


class WindowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one resource's window."""

    min_capacity: int = 100
    max_capacity: int = 102_400
    target_age: float = 75.0
    """Seconds a change should be retained: a full window whose oldest change is younger doubles."""
    max_bytes: int = WINDOW_BYTES
    """Most bytes of all changes; beyond it the oldest are dropped, whatever their age."""


class WindowEntry(msgspec.Struct, frozen=True):
    """One change with its arrival time."""

    key: str
    event: ObjectEvent
    at: float

    @property
    def size(self) -> int:
        return len(self.key) + len(self.event.object) + len(self.event.previous)


class Window:
    """A queue of changes in revision order; several may share a revision."""

    def __init__(self, options: WindowOptions, floor: int = 0) -> None:
        self._options = options
        self._entries: deque[WindowEntry] = deque()
        self._bytes = 0
        self.capacity = options.min_capacity
        self.floor = floor
        self.increases = 0
        self.decreases = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[WindowEntry]:
        return list(self._entries)

    def append(self, entry: WindowEntry) -> None:
        self._resize(entry.at)
        self._entries.append(entry)
        self._bytes += entry.size
        while len(self._entries) > self.capacity or (self._bytes > self._options.max_bytes and len(self._entries) > 1):
            self._evict()

    def _resize(self, now: float) -> None:
        if len(self._entries) < self.capacity:
            return
        cutoff = now - self._options.target_age
        if self._entries[0].at > cutoff:
            self._grow()
        elif self._entries[-(self.capacity // 4)].at < cutoff:
            self._shrink()

    def _grow(self) -> None:
        if self.capacity < self._options.max_capacity:
            self.capacity = min(self.capacity * 2, self._options.max_capacity)
            self.increases += 1

    def _shrink(self) -> None:
        if self.capacity > self._options.min_capacity:
            self.capacity = max(self.capacity // 2, self._options.min_capacity)
            self.decreases += 1

    def _evict(self) -> None:
        entry = self._entries.popleft()
        self._bytes -= entry.size
        self.floor = max(self.floor, entry.event.rv)

    def since(self, revision: int) -> list[WindowEntry] | None:
        """Return the changes after `revision`, oldest first; None if some of them were evicted."""
        if revision < self.floor:
            return None
        return list(dropwhile(lambda entry: entry.event.rv <= revision, self._entries))

    def raise_floor(self, revision: int) -> None:
        """Drop all changes at or below `revision`."""
        while self._entries and self._entries[0].event.rv <= revision:
            self._evict()
        self.floor = max(self.floor, revision)
