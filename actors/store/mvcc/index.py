"""The current state in memory, and drafts of the next one.

- Index holds every live key with its latest value, sorted. It changes only after a commit is on disk.
- Draft is an overlay on the index in which operations run; it becomes one commit, or nothing.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from actors.store.model.errors import LeaseNotFound, TooManyOperations
from actors.store.model.types import FOREVER, SUB_BITS, Commit, KeyChange, LeaseRecord
from protocols.etcd.types import KeyValue


class KeyIndex:
    """Live keys with their latest values at `revision`, sorted."""

    def __init__(self, current: Iterable[KeyValue] = (), revision: int = 1, compacted: int = 0) -> None:
        self._items: dict[bytes, KeyValue] = {kv.key: kv for kv in current}
        self._keys: list[bytes] = sorted(self._items)
        self.revision = revision
        self.compacted = compacted
        """Revisions below this one are compacted."""

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key: bytes) -> KeyValue | None:
        return self._items.get(key)

    def keys(self, start: bytes, end: bytes) -> list[bytes]:
        """Return the live keys of a range, sorted."""
        if not end:
            return [start] if start in self._items else []
        return _between(self._keys, start, end)

    def apply(self, changes: Iterable[KeyChange], revision: int, compacted: int) -> None:
        """Apply committed changes."""
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


class KeySnapshot:
    """The keys of a range as they are now, for a reader in another thread."""

    def __init__(self, index: KeyIndex, start: bytes, end: bytes) -> None:
        self._items = {key: index.get(key) for key in index.keys(start, end)}

    def get(self, key: bytes) -> KeyValue | None:
        return self._items.get(key)

    def keys(self, start: bytes, end: bytes) -> list[bytes]:
        """Return all keys of the range that it was made for."""
        return list(self._items)


def _between(keys: list[bytes], start: bytes, end: bytes) -> list[bytes]:
    return keys[bisect_left(keys, start) : len(keys) if end == FOREVER else bisect_left(keys, end)]


class LeaseView(Protocol):
    """Committed leases."""

    def get(self, lease: int) -> LeaseRecord | None: ...

    def keys(self, lease: int) -> set[bytes]: ...


class Draft:
    """The next state while it is computed.

    Operations run one after another inside `operation()`, and each sees the changes before it. An operation with
    changes is one revision; one that raises leaves no trace.
    """

    def __init__(self, index: KeyIndex, leases: LeaseView) -> None:
        self.index = index
        self.revision = index.revision
        self.compacted = index.compacted
        self.changes: list[KeyChange] = []
        self._committed_leases = leases
        self._keys: dict[bytes, KeyValue | None] = {}
        self._touched: list[bytes] = []
        """The keys of `_keys`, sorted: a batch has up to 65,536, and a comparison must not visit them all."""
        self._leases: dict[int, LeaseRecord | None] = {}
        self._leased: dict[int, set[bytes]] = {}
        """Keys that were put with a lease, and may have lost it since."""
        self._first = 0

    @property
    def current(self) -> int:
        """The revision that a read inside the running operation sees."""
        return self.revision + (len(self.changes) > self._first)

    @contextmanager
    def operation(self) -> Iterator[None]:
        self._first = len(self.changes)
        leases, compacted = dict(self._leases), self.compacted
        try:
            yield
        except BaseException:
            self._undo()
            self._leases, self.compacted = leases, compacted
            raise
        if len(self.changes) > self._first:
            self.revision += 1
        self._first = len(self.changes)

    @property
    def grows(self) -> bool:
        """True if the running operation puts a key."""
        return any(not change.deleted for change in self.changes[self._first :])

    def _undo(self) -> None:
        # An operation changes a key at most once, so undoing its changes in reverse restores the state before it.
        for change in reversed(self.changes[self._first :]):
            self._keys[change.kv.key] = change.previous
        del self.changes[self._first :]

    def get(self, key: bytes) -> KeyValue | None:
        return self._keys[key] if key in self._keys else self.index.get(key)

    def keys(self, start: bytes, end: bytes) -> list[bytes]:
        if not end:
            return [start] if self.get(start) is not None else []
        base = self.index.keys(start, end)
        touched = _between(self._touched, start, end)
        if not touched:
            return base
        live = set(base).difference(touched)
        live.update(key for key in touched if self._keys[key] is not None)
        return sorted(live)

    def put(self, key: bytes, value: bytes, lease: int) -> KeyChange:
        """Put a key; raise LeaseNotFound if its lease does not exist."""
        if lease and self.lease(lease) is None:
            raise LeaseNotFound()
        before = self.get(key)
        revision = self.revision + 1
        created, version = (before.create_revision, before.version + 1) if before else (revision, 1)
        return self._record(KeyValue(key, value, created, revision, version, lease), before)

    def delete(self, key: bytes) -> KeyChange | None:
        before = self.get(key)
        if before is None:
            return None
        return self._record(KeyValue(key, b"", 0, self.revision + 1, 0), before)

    def _record(self, kv: KeyValue, before: KeyValue | None) -> KeyChange:
        if len(self.changes) - self._first >= 1 << SUB_BITS:
            raise TooManyOperations()
        change = KeyChange(kv, before)
        self.changes.append(change)
        if kv.key not in self._keys:
            insort(self._touched, kv.key)
        self._keys[kv.key] = None if change.deleted else kv
        if kv.lease:
            self._leased.setdefault(kv.lease, set()).add(kv.key)
        return change

    def lease(self, lease: int) -> LeaseRecord | None:
        return self._leases[lease] if lease in self._leases else self._committed_leases.get(lease)

    def store_lease(self, record: LeaseRecord) -> None:
        self._leases[record.id] = record

    def revoke(self, lease: int) -> None:
        """Remove a lease and delete its keys, in key order; raise LeaseNotFound if it does not exist."""
        if self.lease(lease) is None:
            raise LeaseNotFound()
        for key in sorted(self._committed_leases.keys(lease) | self._leased.get(lease, set())):
            kv = self.get(key)
            if kv is not None and kv.lease == lease:
                self.delete(key)
        self._leases[lease] = None

    def finish(self) -> Commit:
        kept = [record for record in self._leases.values() if record is not None]
        revoked = [lease for lease, record in self._leases.items() if record is None]
        return Commit(self.changes, kept, revoked, self.compacted)
