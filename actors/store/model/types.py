"""The vocabulary of the store: keys with their revisions, changes, leases, and what one commit writes."""

import msgspec

FOREVER = b"\0"
"""As a range end: every key from the start on."""
SUB_BITS = 20
"""A row's id is revision << SUB_BITS | its place in the revision, so id order is the order of events."""


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """A key as it stands after one put; with version 0 the trace of its deletion."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int = 0


class Change(msgspec.Struct, frozen=True):
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
    """A lease as stored. `expires` is the wall time of its end as granted, for people: nothing counts on it."""

    id: int
    ttl: int
    expires: float


class Commit(msgspec.Struct, frozen=True):
    """What one SQLite transaction writes: all of it or nothing."""

    changes: list[Change]
    leases: list[LeaseRecord]
    revoked: list[int]
    compacted: int
    """Unchanged when equal to what is stored."""

    @property
    def changes_only(self) -> bool:
        return bool(self.changes) and not (self.leases or self.revoked)

    @property
    def empty(self) -> bool:
        return not (self.changes or self.leases or self.revoked)


class Loaded(msgspec.Struct, frozen=True):
    """What the file holds at start."""

    current: list[KeyValue]
    """By key."""
    revision: int
    compacted: int
    leases: list[LeaseRecord]
    cluster_id: int
    member_id: int


def in_range(key: bytes, start: bytes, end: bytes) -> bool:
    """Whether `key` is meant by (start, end) of a request: end empty = that key, FOREVER = all from start on."""
    if not end:
        return key == start
    return key >= start and (end == FOREVER or key < end)
