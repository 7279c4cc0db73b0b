"""Changes of objects, and the window of recent ones from which watches resume."""

from bisect import bisect_right
from collections import deque

from actors.apiserver.api.stored import Stored
from protocols.messages.objects import WINDOW_BYTES


class Change:
    """One change of one object: `before` is None if it created the object, `after` if it deleted it."""

    __slots__ = ("after", "at", "before", "encoded", "key", "rv", "size")

    def __init__(self, key: str, rv: int, before: Stored | None, after: Stored | None, at: float = 0.0) -> None:
        self.key = key
        self.rv = rv
        self.before = before
        self.after = after
        self.at = at
        self.size = (len(before.raw) if before else 0) + (len(after.raw) if after else 0)
        """Bytes of the object before and after."""
        self.encoded: dict[object, bytes] | None = {}
        """Encoded events by encoding key: one encoding serves every watcher that needs it. None once it is old."""


MIN_CAPACITY, MAX_CAPACITY = 100, 102_400
FRESH_SECONDS = 75.0
"""The window grows while it covers less than this: more than the minute between the bookmarks of an idle watch."""
ENCODED_CHANGES, ENCODED_BYTES = 256, 4 * 1024 * 1024
"""Newest changes whose encoded events are retained, and a bound of their bytes. A watch that resumes further back
encodes again."""


LARGE = 64 * 1024
"""Bytes of a change whose memory is freed at once when it is evicted."""


class Window:
    """The newest changes in order. A watch can resume from revision N if and only if N >= floor. Pure."""

    def __init__(self, floor: int = 0, lowest: int = MIN_CAPACITY, highest: int = MAX_CAPACITY) -> None:
        self.floor = floor
        self.capacity = lowest
        self._lowest, self._highest = lowest, highest
        self._changes: list[Change] = []
        self._first = 0
        """Index of the oldest retained change. Evicted ones before it are freed in batches."""
        self._bytes = 0
        self._encoded: deque[Change] = deque()
        self._encoded_bytes = 0

    def __len__(self) -> int:
        return len(self._changes) - self._first

    def append(self, change: Change) -> None:
        """Add the newest change. Neither `change.at` nor `change.rv` may decrease."""
        if len(self) >= self.capacity:
            self._resize(change.at)
        size = change.size
        while len(self) >= self.capacity or (self._bytes + size > WINDOW_BYTES and len(self)):
            self._evict()
        self._bytes += size
        self._encoded.append(change)
        self._encoded_bytes += size
        while len(self._encoded) > ENCODED_CHANGES or (self._encoded_bytes > ENCODED_BYTES and len(self._encoded) > 1):
            older = self._encoded.popleft()
            self._encoded_bytes -= older.size
            older.encoded = None
        self._changes.append(change)

    def since(self, rv: int) -> list[Change]:
        """Return changes with a revision above `rv`, oldest first."""
        first = bisect_right(self._changes, rv, lo=self._first, key=lambda change: change.rv)
        return self._changes[first:]

    def _resize(self, now: float) -> None:
        oldest, quarter = self._changes[self._first], self._changes[-max(1, self.capacity // 4)]
        if now - oldest.at < FRESH_SECONDS:
            self.capacity = min(self._highest, self.capacity * 2)
        elif now - quarter.at > FRESH_SECONDS:
            self.capacity = max(self._lowest, self.capacity // 2)

    def _evict(self) -> None:
        evicted = self._changes[self._first]
        self._first += 1
        self._bytes -= evicted.size
        rest = self._changes[self._first].rv - 1 if len(self) else evicted.rv
        self.floor = max(self.floor, evicted.rv, rest)
        if self._first > max(self._lowest, len(self) // 4) or evicted.size > LARGE:
            del self._changes[: self._first]
            self._first = 0
