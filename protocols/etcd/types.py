"""Results of the etcd client: keys, ranges, guarded writes, batches of a watch."""

from collections.abc import Collection, Mapping

import msgspec

from protocols.wire import mvcc_pb2


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """A key as stored."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    """Puts since creation; 1 = not changed since it was created, 0 = the tombstone of a deletion."""
    lease: int = 0


class Ranged(msgspec.Struct, frozen=True):
    """Answer of a range."""

    kvs: list[KeyValue]
    more: bool
    """The limit cut it."""
    count: int
    """Keys in the whole range."""
    revision: int
    """Revision of the store when it answered."""


class Written(msgspec.Struct, frozen=True):
    """Result of a guarded write."""

    ok: bool
    revision: int
    """The object's new revision, or that of its deletion; when not ok, the store's."""
    current: KeyValue | None = None
    """Not ok: what is stored now, None when absent. A deletion that is ok: what was deleted."""
    taken: tuple[bytes, ...] = ()
    """Not ok: companions of the key that exist already."""
    by_read: bool = False
    """The answer was lost, and a read proved the write: `ok` with its revision. A deletion proved so found the key
    gone: its revision is the store's, and there is no `current`."""


class Companions(msgspec.Struct, frozen=True):
    """Keys that a guarded write changes with its own, or depends on, in one transaction."""

    added: Mapping[bytes, bytes] = {}
    """Keys that must be absent, with their values."""
    removed: Collection[bytes] = ()
    held: Mapping[bytes, int] = {}
    """Keys that must stand at a revision."""


ALONE = Companions()


class Granted(msgspec.Struct, frozen=True):
    """A lease."""

    id: int
    ttl: int


class StoreStatus(msgspec.Struct, frozen=True):
    """Status of one member."""

    version: str
    revision: int
    size: int
    errors: tuple[str, ...] = ()
    """Alarms, such as `memberID:1 alarm:NOSPACE`."""


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One change of a key. `kv` of a deletion has only key and mod_revision."""

    deleted: bool
    kv: KeyValue
    previous: KeyValue | None
    """The key before, when it was asked for, was there, and is not compacted."""

    @property
    def created(self) -> bool:
        return not self.deleted and self.kv.create_revision == self.kv.mod_revision


class WatchBatch(msgspec.Struct, frozen=True):
    """One response of a watch: events of whole revisions, or progress if there are none.

    All changes up to `revision` have been delivered. With events it is the last event's revision, or a later one from a
    store that catches up.
    """

    revision: int
    events: list[WatchEvent]

    @property
    def progress(self) -> bool:
        return not self.events


def key_value(kv: mvcc_pb2.KeyValue) -> KeyValue:
    """Read a KeyValue of the wire."""
    return KeyValue(kv.key, kv.value, kv.create_revision, kv.mod_revision, kv.version, kv.lease)


def watch_event(event: mvcc_pb2.Event) -> WatchEvent:
    """Read an Event of the wire; the previous value is None if the watch does not ask for it."""
    previous = key_value(event.prev_kv) if event.HasField("prev_kv") else None
    return WatchEvent(event.type == mvcc_pb2.Event.DELETE, key_value(event.kv), previous)


def prefix_end(prefix: bytes) -> bytes:
    """Return the range end that stands for every key which starts with `prefix`."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b"\0"
