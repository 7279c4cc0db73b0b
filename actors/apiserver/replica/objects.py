"""The objects of one resource in storage order, and the stored values that cannot be read."""

import logging
import sys
from bisect import bisect_left, insort
from collections.abc import Container, Iterator

from actors.apiserver.api.stored import Stored, corruption
from protocols.messages.objects import fingerprint

BEHIND = chr(sys.maxunicode)
"""Sorts behind each character of a name."""
FEW, MANY = 64, 4096
"""Up to FEW new keys are inserted one by one, more are sorted in together; at most MANY wait for that."""


class Objects:
    """A sorted map of objects by key.

    Listing a namespace costs what the namespace holds. A new key is sorted in by the next list only, since each
    insertion moves all keys after it.
    """

    def __init__(self) -> None:
        self._by_key: dict[str, Stored] = {}
        self._keys: list[str] = []
        self._new: list[str] = []
        """Keys of `_by_key` that are not in `_keys` yet."""

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: str) -> Stored | None:
        return self._by_key.get(key)

    def put(self, stored: Stored) -> None:
        if stored.key not in self._by_key:
            self._new.append(stored.key)
            if len(self._new) >= MANY:
                self.keys()
        self._by_key[stored.key] = stored

    def remove(self, key: str) -> Stored | None:
        stored = self._by_key.pop(key, None)
        if stored is not None:
            keys = self.keys()
            del keys[bisect_left(keys, key)]
        return stored

    def replace(self, all_objects: dict[str, Stored]) -> None:
        self._by_key = all_objects
        self._keys, self._new = sorted(all_objects), []

    def keys(self) -> list[str]:
        """Return the sorted keys. The list must not be changed and is valid until the next change."""
        new, self._new = self._new, []
        if len(new) <= FEW:
            for key in new:
                insort(self._keys, key)
        else:
            self._keys += new
            self._keys.sort()
        return self._keys

    def below(self, prefix: str, start: str = "") -> Iterator[Stored]:
        """Yield objects whose key begins with `prefix` (empty = all), from key `start` on."""
        keys = self.keys()
        if not prefix and not start:
            yield from map(self._by_key.__getitem__, keys)
            return
        first = bisect_left(keys, max(prefix, start))
        for index in range(first, len(keys)):
            key = keys[index]
            if not key.startswith(prefix):
                return
            yield self._by_key[key]

    def first(self, prefix: str, most: int) -> tuple[list[Stored], int]:
        """Return the first objects whose key begins with `prefix`, at most so many, and the number of the others."""
        keys = self.keys()
        begin = bisect_left(keys, prefix)
        end = bisect_left(keys, f"{prefix}{BEHIND}", lo=begin) if prefix else len(keys)
        return [self._by_key[key] for key in keys[begin : min(end, begin + most)]], max(0, end - begin - most)

    def selected(self, prefix: str, name: str) -> list[Stored]:
        """Return the objects whose key begins with `prefix`, and of these the ones of a name unless it is empty."""
        if not name:
            return list(self.below(prefix))
        one = self._by_key.get(prefix + name)
        if one is not None or prefix:
            return [] if one is None else [one]
        return [self._by_key[key] for key in self.keys() if key.endswith(f"/{name}")]


LOGGED = 100
"""Log lines per resource and process: a store may hold any number of unreadable objects."""


class CorruptObjects:
    """Stored values of one resource that cannot be read, and why.

    They are left out of lists and watches, so that one bad value in the store hides none of its neighbours.
    """

    def __init__(self, prefix: str, custom: bool) -> None:
        self._prefix, self._custom = prefix, custom
        self._why: dict[str, str] = {}
        self._fingerprints: dict[str, int] = {}
        self._logged = 0

    def readable(self, stored: Stored) -> Stored | None:
        """Return the object if it can be read; else record why not and return None."""
        why = corruption(stored.raw, self._custom)
        if not why:
            self.forget(stored.key)
            return stored
        if stored.key not in self._why and self._logged < LOGGED:
            self._logged += 1
            log = logging.getLogger("apiserver")
            log.error("stored object is left out key=%s%s reason=%s", self._prefix, stored.key, why)
        self._why[stored.key] = why
        self._fingerprints[stored.key] = fingerprint(stored.key, stored.rv, stored.raw)
        return None

    def forget(self, key: str) -> None:
        if self._why.pop(key, None) is not None:
            del self._fingerprints[key]

    def keep(self, keys: Container[str]) -> None:
        """Forget all keys but these."""
        for key in [key for key in self._why if key not in keys]:
            self.forget(key)

    def __contains__(self, key: object) -> bool:
        return key in self._why

    def __len__(self) -> int:
        return len(self._why)

    def digest(self) -> int:
        """Return what these values add to the digest of all objects."""
        return sum(self._fingerprints.values())

    def why(self, key: str) -> str:
        return self._why.get(key, "")

    def below(self, prefix: str) -> list[str]:
        """Return the store's keys of unreadable objects whose key begins with `prefix`."""
        return sorted(f"{self._prefix}{key}" for key in self._why if key.startswith(prefix))
