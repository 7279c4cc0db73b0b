"""Which resource a key of etcd belongs to. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping

import msgspec

from actors.watchcache.cache.history_check import Lineage
from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.resource_cache import Reached, ResourceCache, Stored, stored
from protocols.etcd import KeyValue, WatchBatch, WatchEvent
from protocols.kube.custom import declared
from protocols.kube.jsons import read_json_object
from protocols.kube.resources import DEFINITIONS, EXTENSIONS, Resource
from protocols.messages.objects import HISTORY_MARK, ObjectEvent


class Demux:
    """Finds a cache by key prefix. Keys outside every prefix (of other API servers, say) are nobody's."""

    def __init__(self, caches: Iterable[ResourceCache]) -> None:
        pairs = sorted((cache.resource.storage_prefix.encode(), cache) for cache in caches)
        self._prefixes = [prefix for prefix, _ in pairs]
        self._caches = [cache for _, cache in pairs]

    def find(self, key: bytes) -> tuple[ResourceCache, str] | None:
        """The cache, and the key below its prefix."""
        at = bisect_right(self._prefixes, key) - 1
        if at < 0 or not key.startswith(self._prefixes[at]):
            return None
        rest = key[len(self._prefixes[at]) :].decode(errors="replace")
        if not rest or rest.startswith(HISTORY_MARK):  # snapshots mark history so; no object's name may begin with it
            return None
        return self._caches[at], rest


ROOT = "/registry/"


class Orphans:
    def __init__(self) -> None:
        self._below: dict[str, dict[str, Stored]] = {}

    def put(self, key: bytes, stored: Stored) -> None:
        found = _split(key)
        if found:
            self._below.setdefault(found[0], {})[found[1]] = stored

    def remove(self, key: bytes) -> None:
        found = _split(key)
        if found and found[0] in self._below:
            self._below[found[0]].pop(found[1], None)

    def claim(self, prefix: str) -> dict[str, Stored]:
        return self._below.pop(prefix, {})

    def leave(self, prefix: str, objects: Mapping[str, Stored]) -> None:
        if objects:
            self._below.setdefault(prefix, {}).update(objects)

    def clear(self) -> None:
        self._below.clear()


def _split(key: bytes) -> tuple[str, str] | None:
    """(prefix, rest) of a custom resource's key: its group, unlike the first part of any other, has a dot."""
    parts = key.decode(errors="replace").removeprefix(ROOT).split("/", 2)
    return (f"{ROOT}{parts[0]}/{parts[1]}/", parts[2]) if len(parts) == 3 and "." in parts[0] else None


class Change(msgspec.Struct, frozen=True):
    """An event to publish on a resource's stream."""

    cache: ResourceCache
    key: str
    event: ObjectEvent


class State:
    """`position`: everything up to it has been taken in. What comes up to `listed` (the revision of the list) is
    history the list has seen already: it fills the windows, and is published only past `goal`.

    `goal` is `listed` where progress comes in order, or every key is watched. Else it is the newest change among the
    listed keys: its event is sure to come, and past it only deletions can still belong to the list.

    A CustomResourceDefinition among the objects adds a cache from its own revision on; its deletion takes it away.
    """

    def __init__(self, options: WatchcacheOptions) -> None:
        self._options = options
        self._reached = Reached()
        self.caches = [ResourceCache(resource, options.window, self._reached) for resource in options.resources]
        self._definitions = next((cache for cache in self.caches if cache.resource == DEFINITIONS), None)
        self._custom: dict[str, ResourceCache] = {}
        """By name of the definition."""
        self._orphans = Orphans()
        self._demux = Demux(self.caches)
        self.generation = 0
        """Counts how often a cache came or went."""
        self.listed = 0
        self.goal = 0
        self.position = 0
        self.lineage = Lineage()

    @property
    def complete(self) -> bool:
        """The windows are filled: streams may be told."""
        return self.listed > 0 and self.position >= self.goal

    def load(self, kvs: list[KeyValue], revision: int, in_order: bool = True) -> None:
        """The first list: history is to be read from `position` on."""
        self.listed = revision
        every_key = in_order or (self._options.efficient and revision > 1)  # revision 1 is an empty store: no event
        self.goal = revision if every_key else max((kv.mod_revision for kv in kvs), default=0)
        self.position = self._history_start(kvs, revision)
        self._reached.revision = 0
        self.lineage.clear()
        self._define(kvs)
        objects = self._sorted_out(kvs)
        for cache in self.caches:
            cache.load(objects[cache.resource.storage_prefix], self.position)
            cache.position = self.position

    def _history_start(self, kvs: Iterable[KeyValue], revision: int) -> int:
        """Return the revision after which history is read: as far back as is wanted, and as its bytes allow."""
        if not self._options.efficient:
            return revision
        start, size = max(revision - self._options.resume_revisions, 0), 0
        for kv in sorted(kvs, key=lambda kv: -kv.mod_revision):
            size += len(kv.value)
            if kv.mod_revision <= start:
                return start
            if size > self._options.resume_bytes:
                return kv.mod_revision
        return start

    def skip_to(self, revision: int) -> None:
        """History up to `revision` is compacted."""
        self.position = max(self.position, revision)
        self.lineage.forget_up_to(revision)
        for cache in self.caches:
            cache.window.raise_floor(revision)

    def contradicted(self, kvs: Iterable[KeyValue], revision: int) -> str:
        """Return why a later list belongs to another history than the one applied here; empty when nothing shows it.

        Whatever the list holds up to our position must be what we hold.
        """
        if revision < self.position:
            return f"the store is at revision {revision}, this cache has seen {self.position} of it"
        for kv in kvs:
            found = self._demux.find(kv.key) if kv.mod_revision <= self.position else None
            if found and found[0].objects.get(found[1]) != stored(kv):
                return f"{kv.key.decode(errors='replace')} at revision {kv.mod_revision} is not what was applied here"
        return ""

    def replace(self, kvs: list[KeyValue], revision: int) -> list[Change]:
        """A later list, after a compaction beyond `position`."""
        self.listed = self.goal = self.position = revision
        self.lineage.clear()
        self._define(kvs)
        objects = self._sorted_out(kvs)
        changes = [
            Change(cache, key, event)
            for cache in self.caches
            for key, event in cache.replace(objects[cache.resource.storage_prefix], revision)
        ]
        for cache in self.caches:
            cache.position = revision
        return sorted(changes, key=lambda change: change.event.rv)

    def _sorted_out(self, kvs: Iterable[KeyValue]) -> dict[str, dict[str, Stored]]:
        objects: dict[str, dict[str, Stored]] = {cache.resource.storage_prefix: {} for cache in self.caches}
        self._orphans.clear()
        for kv in kvs:
            found = self._demux.find(kv.key)
            if found:
                cache, key = found
                objects[cache.resource.storage_prefix][key] = stored(kv)
            elif self._definitions is not None:
                self._orphans.put(kv.key, stored(kv))
        return objects

    def take(self, batch: WatchBatch, now: float) -> list[Change]:
        """A batch of the watch; what was taken in already is left out."""
        changes = []
        fresh = [event for event in batch.events if event.kv.mod_revision > self.position]
        self.lineage.note(fresh)
        for event in fresh:
            found = self._demux.find(event.kv.key)
            if found is None:
                self._stray(event)
                continue
            cache, key = found
            replayed = event.kv.mod_revision <= self.listed
            made = (cache.replay if replayed else cache.apply)(key, event, now)
            if made is not None and event.kv.mod_revision > self.goal:
                changes.append(Change(cache, key, made))
            cache.position = max(cache.position, event.kv.mod_revision)
            if cache is self._definitions and not replayed:
                self._redefine(key, cache.objects.get(key), event.kv.mod_revision)
        self.position = max(self.position, batch.revision)
        if self._options.efficient:
            self._reached.revision = self.position
            for cache in self.caches if batch.progress else ():
                cache.progress += 1
        return changes

    def _stray(self, event: WatchEvent) -> None:
        """Only the store that keeps the definitions keeps what they define."""
        ours = self._definitions is not None and event.kv.key.startswith(self._options.prefix)
        if not ours or event.kv.mod_revision <= self.listed:
            return
        if event.deleted:
            self._orphans.remove(event.kv.key)
        else:
            self._orphans.put(event.kv.key, stored(event.kv))

    def _define(self, kvs: Iterable[KeyValue]) -> None:
        """Exactly the caches that a list's definitions ask for."""
        prefix = DEFINITIONS.storage_prefix
        found = {
            kv.key.decode(errors="replace").removeprefix(prefix): kv for kv in kvs if kv.key.startswith(prefix.encode())
        }
        for name in self._custom.keys() - found.keys():
            self._redefine(name, None, 0)
        for name, kv in found.items():
            self._redefine(name, stored(kv), kv.mod_revision)

    def _redefine(self, name: str, definition: Stored | None, revision: int) -> None:
        """A definition is as it is now; `revision` is where the history of its resource begins, if it is new."""
        resource = None if definition is None or self._definitions is None else _declared(name, definition)
        held = self._custom.get(name)
        if held is not None and resource is not None and held.resource.storage_prefix == resource.storage_prefix:
            return
        if held is not None:
            self.caches.remove(self._custom.pop(name))
            self._orphans.leave(held.resource.storage_prefix, held.objects)
        if resource is not None:
            cache = self._custom[name] = ResourceCache(resource, self._options.window, self._reached)
            cache.load(self._orphans.claim(resource.storage_prefix), revision)
            cache.position = revision
            self.caches.append(cache)
        if held is not None or resource is not None:
            self._demux = Demux(self.caches)
            self.generation += 1


def _declared(name: str, definition: Stored) -> Resource | None:
    """None for what cannot be read or is not called `plural.group`: no two definitions share a prefix."""
    try:
        found = declared(read_json_object(definition.value))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # anything may be stored
        return None
    return found if found is not None and found.qualified == name and found.group != EXTENSIONS else None
