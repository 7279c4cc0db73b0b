"""History of one resource: a queue of changes that grows and shrinks with their rate. Pure; time is given.

Invariant: above `floor` the history has no gap. So a watch from N is served exactly when N >= floor, that is
N >= oldest - 1. Progress without events moves neither.
"""

from collections import deque
from itertools import dropwhile

import msgspec

from actors.watchcache.cache.options import WindowOptions
from protocols.messages.objects import ObjectEvent


class Entry(msgspec.Struct, frozen=True):
    """One change, and when it came (monotonic)."""

    key: str
    event: ObjectEvent
    at: float

    @property
    def size(self) -> int:
        return len(self.key) + len(self.event.object) + len(self.event.previous)


class Window:
    """Changes arrive in revision order; several may share a revision."""

    def __init__(self, options: WindowOptions, floor: int = 0) -> None:
        self._options = options
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self.capacity = options.least
        self.floor = floor
        self.increases = 0
        self.decreases = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def oldest(self) -> int:
        """First revision whose changes are all here."""
        return self.floor + 1

    @property
    def entries(self) -> list[Entry]:
        return list(self._entries)

    def append(self, entry: Entry) -> None:
        self._resize(entry.at)
        self._entries.append(entry)
        self._bytes += entry.size
        while len(self._entries) > self.capacity or (self._bytes > self._options.max_bytes and len(self._entries) > 1):
            self._evict()

    def _resize(self, now: float) -> None:
        if len(self._entries) < self.capacity:
            return
        fresh = now - self._options.fresh
        if self._entries[0].at > fresh:
            self._grow()
        elif self._entries[-(self.capacity // 4)].at < fresh:
            self._shrink()

    def _grow(self) -> None:
        if self.capacity < self._options.most:
            self.capacity = min(self.capacity * 2, self._options.most)
            self.increases += 1

    def _shrink(self) -> None:
        if self.capacity > self._options.least:
            self.capacity = max(self.capacity // 2, self._options.least)
            self.decreases += 1

    def _evict(self) -> None:
        entry = self._entries.popleft()
        self._bytes -= entry.size
        self.floor = max(self.floor, entry.event.rv)

    def since(self, revision: int) -> list[Entry] | None:
        """Changes after `revision`, oldest first; None when some of them are gone."""
        if revision < self.floor:
            return None
        return list(dropwhile(lambda entry: entry.event.rv <= revision, self._entries))

    def raise_floor(self, revision: int) -> None:
        """What is at or below `revision` is not to be told any more."""
        while self._entries and self._entries[0].event.rv <= revision:
            self._evict()
        self.floor = max(self.floor, revision)
