"""A cache bounded in bytes: clients choose the size of entries, so a bound on their number is not enough."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
ENTRY_BYTES = 200
"""Overhead of an entry beside its key and value."""


class Lru(Generic[K, V]):
    """A thread-safe LRU cache; concurrent callers may compute a value twice."""

    def __init__(self, most: int, size: Callable[[K, V], int]) -> None:
        """Hold at most `most` bytes; entries whose `size` exceeds a quarter of that are not cached."""
        self._most, self._size = most, size
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0

    def get(self, key: K) -> V | None:
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V) -> None:
        size = self._size(key, value) + ENTRY_BYTES
        with self._lock:
            self._drop(key)
            if size > self._most // 4:
                return
            self._held[key] = (value, size)
            self.bytes += size
            while self.bytes > self._most:
                self._drop(next(iter(self._held)))

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return the cached value, or compute and cache it."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def __len__(self) -> int:
        return len(self._held)

    def _drop(self, key: K) -> None:
        gone = self._held.pop(key, None)
        if gone is not None:
            self.bytes -= gone[1]
