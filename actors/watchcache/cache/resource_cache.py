"""Cache of one resource: its stored objects and its window. Pure; callers pass monotonic time.

How a change of the store becomes an event of the stream:
- `replay` takes a change that the initial list already contains: it enters the window only.
- `apply` takes a new change: it enters objects and window and is published.
- A change without its previous object (compacted) ends the history below it: the floor rises to its revision.
- Values in protobuf, which a kube-apiserver writes, become JSON where they are known.
- `load` takes a list, the first or one after a compaction: history begins anew.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from actors.watchcache.cache.window import Window, WindowEntry, WindowOptions
from protocols.bus import Event, Item, Op, Value
from protocols.etcd.types import KeyValue, WatchEvent
from protocols.kinds.table import Resource
from protocols.kube.jsons import stored_json
from protocols.messages.objects import (
    ADDED,
    DELETED,
    DIGEST,
    DIGEST_MASK,
    FLOOR,
    FLOOR_KEY,
    HISTORY_MARK,
    MODIFIED,
    STORED,
    ObjectEvent,
    fingerprint,
)


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """An object as stored, with the revision of its last change."""

    value: bytes
    rv: int


NOTHING = StoredObject(b"", 0)
"""Stands for the object before a change that nobody holds."""


class SharedRevision:
    """The revision up to which all resources of a store are known; one place instead of one update for each."""

    __slots__ = ("revision",)

    def __init__(self) -> None:
        self.revision = 0


class ResourceCache:
    """A StreamSource of the bus. `apply` returns the event to publish."""

    def __init__(self, resource: Resource, options: WindowOptions, reached: SharedRevision | None = None) -> None:
        self.resource = resource
        self.objects: dict[str, StoredObject] = {}
        self._options = options
        self.window = Window(options)
        self._position = 0
        self._shared_revision = reached or SharedRevision()
        self.progress = 0
        """Progress notifications so far."""
        self.received = 0
        self.published = 0
        """Events published to followers."""
        self.initializations = 0
        self.checks: Counter[str] = Counter()
        """Comparisons with the store, by outcome."""

    @property
    def position(self) -> int:
        """The stream's mark: every change of this resource up to this revision has been taken in."""
        return max(self._position, self._shared_revision.revision)

    @position.setter
    def position(self, revision: int) -> None:
        self._position = revision

    def load(self, objects: dict[str, StoredObject], floor: int) -> None:
        """Set the objects of a list; history begins above `floor`."""
        self.objects = objects
        self.window = Window(self._options, floor)
        self.initializations += 1

    def replay(self, key: str, event: WatchEvent, now: float) -> ObjectEvent | None:
        """Add a change that the list contains already to the window; return it as it entered."""
        self.received += 1
        known = stored(event.previous) if event.previous else NOTHING
        if not known.value and not event.created:
            self.window.raise_floor(event.kv.mod_revision)
            return None
        change = _object_event(event, stored_json(event.kv.value), known)
        self.window.append(WindowEntry(key, change, now))
        return change

    def apply(self, key: str, event: WatchEvent, now: float) -> ObjectEvent | None:
        """Apply a new change and return it; None for the deletion of an unknown object."""
        self.received += 1
        known = stored(event.previous) if event.previous else self.objects.get(key, NOTHING)
        value = stored_json(event.kv.value)
        if event.deleted:
            self.objects.pop(key, None)
        else:
            self.objects[key] = StoredObject(value, event.kv.mod_revision)
        if not known.value and not event.created:
            self.window.raise_floor(event.kv.mod_revision)
            if event.deleted:
                return None
        change = _object_event(event, value, known)
        self.window.append(WindowEntry(key, change, now))
        return change

    def snapshot(self) -> Iterable[Item]:
        yield from [Item(key, ObjectEvent(STORED, obj.rv, obj.value)) for key, obj in self.objects.items()]
        yield Item(FLOOR_KEY, ObjectEvent(FLOOR, self.window.floor, b""))
        for number, entry in enumerate(self.window.entries):
            if entry.event.rv > self.window.floor:
                yield Item(f"{HISTORY_MARK}{number}/{entry.key}", entry.event)

    def since(self, mark: int) -> Iterable[Event[Value]] | None:
        entries = self.window.since(mark)
        if entries is None:
            return None
        return [Event(op_of(entry.event), entry.key, entry.event, mark=entry.event.rv) for entry in entries]

    def digest(self) -> ObjectEvent:
        """Return the digest that a follower at `position` compares with its own objects."""
        shares = (fingerprint(key, held.rv, held.value) for key, held in self.objects.items())
        return ObjectEvent(DIGEST, self.position, (sum(shares) & DIGEST_MASK).to_bytes(8, "big"))


def op_of(event: ObjectEvent) -> Op:
    """Return the operation on the bus that an event of a resource is."""
    return Op.DELETE if event.type == DELETED else Op.UPSERT


def stored(kv: KeyValue) -> StoredObject:
    """Return a stored object of a key; values in protobuf become JSON."""
    return StoredObject(stored_json(kv.value), kv.mod_revision)


def _object_event(event: WatchEvent, value: bytes, known: StoredObject) -> ObjectEvent:
    rv = event.kv.mod_revision
    if event.deleted:
        return ObjectEvent(DELETED, rv, known.value, known.value, known.rv)
    if event.created:
        return ObjectEvent(ADDED, rv, value)
    return ObjectEvent(MODIFIED, rv, value, known.value, known.rv)
