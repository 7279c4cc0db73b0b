"""Types of the store: keys with their revisions, changes, leases and commits."""

import msgspec

from protocols.etcd.types import KeyValue

FOREVER = b"\0"
"""As a range end: no upper bound."""
SUB_BITS = 20
"""A row's id is revision << SUB_BITS | index in the revision, so id order is the order of events."""


class KeyChange(msgspec.Struct, frozen=True):
    """One row of the log: a put, or a deletion (`kv.version` is 0)."""

    kv: KeyValue
    previous: KeyValue | None
    """The key before; None when it was absent, or when compaction removed it."""

    @property
    def revision(self) -> int:
        return self.kv.mod_revision

    @property
    def deleted(self) -> bool:
        return self.kv.version == 0

    @property
    def size(self) -> int:
        before = len(self.previous.value) if self.previous else 0
        return 2 * len(self.kv.key) + len(self.kv.value) + before + 64


class LeaseRecord(msgspec.Struct, frozen=True):
    """A lease as stored. `expires` is wall time for human readers only; no code uses it."""

    id: int
    ttl: int
    expires: float


class Commit(msgspec.Struct, frozen=True):
    """The content of one SQLite transaction."""

    changes: list[KeyChange]
    leases: list[LeaseRecord]
    revoked: list[int]
    compacted: int
    """The compacted revision, also if this commit does not change it."""

    @property
    def changes_only(self) -> bool:
        return bool(self.changes) and not (self.leases or self.revoked)

    @property
    def empty(self) -> bool:
        return not (self.changes or self.leases or self.revoked)


class LoadedState(msgspec.Struct, frozen=True):
    """The content of the file at start."""

    current: list[KeyValue]
    """Live keys."""
    revision: int
    compacted: int
    leases: list[LeaseRecord]
    cluster_id: int
    member_id: int


def in_range(key: bytes, start: bytes, end: bytes) -> bool:
    """Return True if `key` is in the range of a request: an empty end means the key `start`, FOREVER no bound."""
    if not end:
        return key == start
    return key >= start and (end == FOREVER or key < end)
