"""One resource: its stored objects, its window, and how a change of etcd becomes an event. Pure; time is given."""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from actors.watchcache.cache.options import WindowOptions
from actors.watchcache.cache.window import Entry, Window
from protocols.bus import Event, Item, Op, Value
from protocols.etcd import KeyValue, WatchEvent
from protocols.kube.resources import Resource
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


class Stored(msgspec.Struct, frozen=True, gc=False):
    """An object as stored: created and last changed at these revisions."""

    value: bytes
    created: int
    rv: int


class Reached:
    """How far all of a store's resources have come: told in one place, however many there are."""

    __slots__ = ("revision",)

    def __init__(self) -> None:
        self.revision = 0


class ResourceCache:
    """A StreamSource. `publish`-worthy events are what apply() and replace() return."""

    def __init__(self, resource: Resource, options: WindowOptions, reached: Reached | None = None) -> None:
        self.resource = resource
        self.objects: dict[str, Stored] = {}
        self._options = options
        self.window = Window(options)
        self._position = 0
        self._reached = reached or Reached()
        self.progress = 0
        """Progress notifications so far."""
        self.received = 0
        self.published = 0
        """Events told to followers."""
        self.initializations = 0
        self.checks: Counter[str] = Counter()
        """Comparisons with the store, by outcome."""

    @property
    def position(self) -> int:
        """The stream's mark: everything of this resource up to this revision has been taken in."""
        return max(self._position, self._reached.revision)

    @position.setter
    def position(self, revision: int) -> None:
        self._position = revision

    def load(self, objects: dict[str, Stored], floor: int) -> None:
        """The first list; history begins above `floor`."""
        self.objects = objects
        self.window = Window(self._options, floor)
        self.initializations += 1

    def replay(self, key: str, event: WatchEvent, now: float) -> ObjectEvent | None:
        """A change the list has seen already: history only. One whose past was compacted ends the history below it."""
        self.received += 1
        known = event.previous.value if event.previous else b""
        if not known and not event.created:
            self.window.raise_floor(event.kv.mod_revision)
            return None
        change = _object_event(event, known)
        self.window.append(Entry(key, change, now))
        return change

    def apply(self, key: str, event: WatchEvent, now: float) -> ObjectEvent | None:
        """A new change; None for the deletion of what was never here."""
        self.received += 1
        held = self.objects.get(key)
        known = event.previous.value if event.previous else held.value if held else b""
        if event.deleted:
            self.objects.pop(key, None)
        else:
            self.objects[key] = Stored(event.kv.value, event.kv.create_revision, event.kv.mod_revision)
        if not known and not event.created:
            self.window.raise_floor(event.kv.mod_revision)
            if event.deleted:
                return None
        change = _object_event(event, known)
        self.window.append(Entry(key, change, now))
        return change

    def replace(self, objects: dict[str, Stored], revision: int) -> list[tuple[str, ObjectEvent]]:
        """A list after compaction took what the watch would have told: the difference as events, in revision order.
        What lies between is unknown, so the history starts anew above `revision`."""
        changes = sorted(_difference(self.objects, objects, revision), key=lambda change: change[1].rv)
        self.load(objects, revision)
        return changes

    def snapshot(self) -> Iterable[Item]:
        yield from [Item(key, ObjectEvent(STORED, each.rv, each.value)) for key, each in self.objects.items()]
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
        """Return what a follower that applied everything up to `position` compares its objects with."""
        shares = (fingerprint(key, held.rv, held.value) for key, held in self.objects.items())
        return ObjectEvent(DIGEST, self.position, (sum(shares) & DIGEST_MASK).to_bytes(8, "big"))


def op_of(event: ObjectEvent) -> Op:
    return Op.DELETE if event.type == DELETED else Op.UPSERT


def stored(kv: KeyValue) -> Stored:
    return Stored(kv.value, kv.create_revision, kv.mod_revision)


def _object_event(event: WatchEvent, known: bytes) -> ObjectEvent:
    rv = event.kv.mod_revision
    if event.deleted:
        return ObjectEvent(DELETED, rv, known, known)
    if event.created:
        return ObjectEvent(ADDED, rv, event.kv.value)
    return ObjectEvent(MODIFIED, rv, event.kv.value, known)


def _difference(
    before: dict[str, Stored], after: dict[str, Stored], revision: int
) -> Iterator[tuple[str, ObjectEvent]]:
    for key, old in before.items():
        now = after.get(key)
        if now is None:
            yield key, ObjectEvent(DELETED, revision, old.value, old.value)
        elif now.created != old.created:
            # Deleted and made anew in between: its deletion has some revision below the creation.
            yield key, ObjectEvent(DELETED, now.created - 1, old.value, old.value)
            yield key, ObjectEvent(ADDED, now.rv, now.value)
        elif now.rv != old.rv:
            yield key, ObjectEvent(MODIFIED, now.rv, now.value, old.value)
    for key in after.keys() - before.keys():
        yield key, ObjectEvent(ADDED, after[key].rv, after[key].value)
