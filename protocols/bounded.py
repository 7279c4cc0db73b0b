"""A map with a bound: the entry that was set or used longest ago makes room for a new one."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedMap(OrderedDict[K, V]):
    """At most `most` entries, the oldest first. Not safe for threads."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        """Set a value and make its key the newest."""
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return the value and make its key the newest; an absent key gets what `make` returns."""
        if key not in self:
            self[key] = make()
        self.move_to_end(key)
        return self[key]
