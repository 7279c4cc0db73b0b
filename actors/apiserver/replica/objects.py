"""The objects of one resource, in storage order: namespace, then name."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from actors.apiserver.replica.stored import Stored


class Objects:
    """A sorted map. Listing a namespace costs what the namespace holds."""

    def __init__(self) -> None:
        self._by_key: dict[str, Stored] = {}
        self._keys: list[str] = []

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key: str) -> Stored | None:
        return self._by_key.get(key)

    def put(self, stored: Stored) -> None:
        if stored.key not in self._by_key:
            insort(self._keys, stored.key)
        self._by_key[stored.key] = stored

    def remove(self, key: str) -> Stored | None:
        found = self._by_key.pop(key, None)
        if found is not None:
            del self._keys[bisect_left(self._keys, key)]
        return found

    def replace(self, all_objects: dict[str, Stored]) -> None:
        self._by_key = all_objects
        self._keys = sorted(all_objects)

    def keys(self) -> list[str]:
        return self._keys

    def below(self, prefix: str, start: str = "") -> Iterator[Stored]:
        """Objects whose key begins with `prefix` (empty = all), from key `start` on."""
        if not prefix and not start:
            yield from map(self._by_key.__getitem__, self._keys)
            return
        first = bisect_left(self._keys, max(prefix, start))
        for index in range(first, len(self._keys)):
            key = self._keys[index]
            if not key.startswith(prefix):
                return
            yield self._by_key[key]
