"""A cache bounded in bytes, for what clients name: a bound on entries alone bounds nothing, as they choose the size."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
ENTRY_BYTES = 200
"""What an entry takes beside its key and value."""


class Lru(Generic[K, V]):
    """The least recently used entries go first. Safe for threads; a value may be made twice."""

    def __init__(self, most: int, size: Callable[[K, V], int]) -> None:
        """`most` bytes in all; `size` is what an entry takes, more than a quarter of `most` is not retained."""
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

    def made(self, key: K, make: Callable[[], V]) -> V:
        """The value of `key`, made if it is not there."""
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
