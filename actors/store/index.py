"""The current state in memory: every live key with its latest value, sorted. Changed only after a commit."""

from bisect import bisect_left, insort
from collections.abc import Iterable

from actors.store.types import FOREVER, Change, KeyValue


class Index:
    """Committed keys and the revision they stand at."""

    def __init__(self, current: Iterable[KeyValue] = (), revision: int = 1, compacted: int = 0) -> None:
        self._items: dict[bytes, KeyValue] = {kv.key: kv for kv in current}
        self._keys: list[bytes] = sorted(self._items)
        self.revision = revision
        self.compacted = compacted
        """Revisions below this one are gone."""

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key: bytes) -> KeyValue | None:
        return self._items.get(key)

    def keys(self, start: bytes, end: bytes) -> list[bytes]:
        """Live keys of a range, sorted."""
        if not end:
            return [start] if start in self._items else []
        low = bisect_left(self._keys, start)
        high = len(self._keys) if end == FOREVER else bisect_left(self._keys, end)
        return self._keys[low:high]

    def apply(self, changes: Iterable[Change], revision: int, compacted: int) -> None:
        """Take over what was committed."""
        for change in changes:
            if change.deleted:
                self._remove(change.kv.key)
            else:
                self._store(change.kv)
        self.revision = revision
        self.compacted = compacted

    def _store(self, kv: KeyValue) -> None:
        if kv.key not in self._items:
            insort(self._keys, kv.key)
        self._items[kv.key] = kv

    def _remove(self, key: bytes) -> None:
        if self._items.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]
