"""All resources of one store at one revision: lists and batches go in, events to publish come out. Pure.

- `position`: every change up to it has been taken in.
- `listed_revision`: the revision of the initial list. Changes up to it fill the windows; the list contains them.
- `publish_after`: changes beyond it are published. It is `listed_revision` if progress comes in order or every key is
  watched; otherwise it is the newest change among the listed keys: its event is sure to come, and beyond it only
  deletions can still belong to the list.
- A CustomResourceDefinition adds a cache from its own revision on; its deletion removes the cache.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping

import msgspec

from actors.watchcache.cache.history_check import RecentRevisions
from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.resource_cache import ResourceCache, SharedRevision, StoredObject, stored
from protocols.etcd.types import KeyValue, WatchBatch, WatchEvent
from protocols.kinds.table import DEFINITIONS, EXTENSIONS, Resource
from protocols.kube.custom import declared
from protocols.kube.jsons import read_json_object
from protocols.messages.objects import HISTORY_MARK, ObjectEvent

ROOT = "/registry/"


class Demux:
    """Find the cache of a key by its prefix. Keys outside every prefix belong to other users of the store."""

    def __init__(self, caches: Iterable[ResourceCache]) -> None:
        pairs = sorted((cache.resource.storage_prefix.encode(), cache) for cache in caches)
        self._prefixes = [prefix for prefix, _ in pairs]
        self._caches = [cache for _, cache in pairs]

    def find(self, key: bytes) -> tuple[ResourceCache, str] | None:
        """Return the cache and the key below its prefix."""
        at = bisect_right(self._prefixes, key) - 1
        if at < 0 or not key.startswith(self._prefixes[at]):
            return None
        rest = key[len(self._prefixes[at]) :].decode(errors="replace")
        return (self._caches[at], rest) if names_object(rest) else None


def names_object(rest: str) -> bool:
    """Return True for the key of an object below its resource's prefix; snapshots mark history with what none has."""
    return bool(rest) and not rest.startswith(HISTORY_MARK)


class UnclaimedObjects:
    """Custom objects without a definition, by prefix; `claim` hands them over to the definition that comes.

    Deleting a definition deletes its objects first, so only objects left behind by others are here for long.
    """

    def __init__(self) -> None:
        self._below: dict[str, dict[str, StoredObject]] = {}

    def put(self, key: bytes, stored: StoredObject) -> None:
        parts = _split(key)
        if parts:
            self._below.setdefault(parts[0], {})[parts[1]] = stored

    def remove(self, key: bytes) -> None:
        parts = _split(key)
        if parts and parts[0] in self._below:
            self._below[parts[0]].pop(parts[1], None)

    def claim(self, prefix: str) -> dict[str, StoredObject]:
        return self._below.pop(prefix, {})

    def leave(self, prefix: str, objects: Mapping[str, StoredObject]) -> None:
        if objects:
            self._below.setdefault(prefix, {}).update(objects)

    def clear(self) -> None:
        self._below.clear()


def _split(key: bytes) -> tuple[str, str] | None:
    """Split the key of a custom resource into prefix and rest; only such keys begin with a group that has a dot."""
    parts = key.decode(errors="replace").removeprefix(ROOT).split("/", 2)
    return (f"{ROOT}{parts[0]}/{parts[1]}/", parts[2]) if len(parts) == 3 and "." in parts[0] else None


class PublishedEvent(msgspec.Struct, frozen=True):
    """An event to publish on a resource's stream."""

    cache: ResourceCache
    key: str
    event: ObjectEvent


class StoreState:
    """Caches of all resources at one revision."""

    def __init__(self, options: WatchcacheOptions) -> None:
        self._options = options
        self._shared_revision = SharedRevision()
        self.caches = [ResourceCache(resource, options.window, self._shared_revision) for resource in options.resources]
        self._definitions = next((cache for cache in self.caches if cache.resource == DEFINITIONS), None)
        self._custom: dict[str, ResourceCache] = {}
        """Caches of custom resources by the name of their definition."""
        self._unclaimed = UnclaimedObjects()
        self._demux = Demux(self.caches)
        self.generation = 0
        """Incremented when a cache is added or removed."""
        self.listed_revision = 0
        self.publish_after = 0
        self.position = 0
        self.recent = RecentRevisions()

    @property
    def complete(self) -> bool:
        """True once the windows are filled and streams can be published."""
        return self.listed_revision > 0 and self.position >= self.publish_after

    def load(self, kvs: list[KeyValue], revision: int, in_order: bool = True) -> None:
        """Load the first list; the watch must then begin after `position`."""
        self.listed_revision = revision
        every_key = in_order or (
            self._options.efficient_resumption and revision > 1
        )  # revision 1 is an empty store: no event
        self.publish_after = revision if every_key else max((kv.mod_revision for kv in kvs), default=0)
        self.position = self._history_start(kvs, revision)
        self._shared_revision.revision = 0
        self.recent.clear()
        self._define(kvs)
        objects = self._by_cache(kvs)
        for cache in self.caches:
            cache.load(objects[cache.resource.storage_prefix], self.position)
            cache.position = self.position

    def _history_start(self, kvs: Iterable[KeyValue], revision: int) -> int:
        """Return the revision after which history is read, bounded by revisions and bytes."""
        if not self._options.efficient_resumption:
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
        """Skip history up to `revision`, which the store has compacted and the list contains."""
        self.position = max(self.position, revision)
        self.recent.forget_up_to(revision)
        for cache in self.caches:
            cache.position = max(cache.position, revision)
            cache.window.raise_floor(revision)

    def contradicted(self, kvs: Iterable[KeyValue], revision: int) -> str:
        """Return why a later list belongs to another history than the one applied here; empty when nothing shows it.

        Whatever the list holds up to our position must be what we hold.
        """
        if revision < self.position:
            return f"the store is at revision {revision}, this cache has seen {self.position} of it"
        for kv in kvs:
            target = self._demux.find(kv.key) if kv.mod_revision <= self.position else None
            if target and target[0].objects.get(target[1]) != stored(kv):
                return f"{kv.key.decode(errors='replace')} at revision {kv.mod_revision} is not what was applied here"
        return ""

    def replace(self, kvs: list[KeyValue], revision: int) -> bool:
        """Load a later list, after a compaction beyond `position`. Return True if any object differs.

        The changes between are unknown. No order of events leads over them such that each revision on the way is the
        store's, so followers need snapshots then.
        """
        self.listed_revision = self.publish_after = self.position = revision
        self.recent.clear()
        self._define(kvs)
        objects = self._by_cache(kvs)
        differs = any(objects[cache.resource.storage_prefix] != cache.objects for cache in self.caches)
        for cache in self.caches:
            cache.load(objects[cache.resource.storage_prefix], revision)
            cache.position = revision
        return differs

    def _by_cache(self, kvs: Iterable[KeyValue]) -> dict[str, dict[str, StoredObject]]:
        objects: dict[str, dict[str, StoredObject]] = {cache.resource.storage_prefix: {} for cache in self.caches}
        self._unclaimed.clear()
        for kv in kvs:
            target = self._demux.find(kv.key)
            if target:
                cache, key = target
                objects[cache.resource.storage_prefix][key] = stored(kv)
            elif self._definitions is not None:
                self._unclaimed.put(kv.key, stored(kv))
        return objects

    def take(self, batch: WatchBatch, now: float) -> list[PublishedEvent]:
        """Apply a batch of the watch; return the changes to publish. Changes applied before are ignored."""
        changes = []
        fresh = [event for event in batch.events if event.kv.mod_revision > self.position]
        self.recent.note(fresh)
        for event in fresh:
            target = self._demux.find(event.kv.key)
            if target is None:
                self._take_unclaimed(event)
                continue
            cache, key = target
            replayed = event.kv.mod_revision <= self.listed_revision
            change = (cache.replay if replayed else cache.apply)(key, event, now)
            if change is not None and event.kv.mod_revision > self.publish_after:
                changes.append(PublishedEvent(cache, key, change))
            cache.position = max(cache.position, event.kv.mod_revision)
            if cache is self._definitions and not replayed:
                self._redefine(key, cache.objects.get(key), event.kv.mod_revision)
        self.position = max(self.position, batch.revision)
        if self._options.efficient_resumption:
            self._shared_revision.revision = self.position
            for cache in self.caches if batch.progress else ():
                cache.progress += 1
        return changes

    def _take_unclaimed(self, event: WatchEvent) -> None:
        """Retain an object without a definition; only the store of the definitions holds such objects."""
        ours = self._definitions is not None and event.kv.key.startswith(self._options.prefix)
        if not ours or event.kv.mod_revision <= self.listed_revision:
            return
        if event.deleted:
            self._unclaimed.remove(event.kv.key)
        else:
            self._unclaimed.put(event.kv.key, stored(event.kv))

    def _define(self, kvs: Iterable[KeyValue]) -> None:
        """Add and remove caches so that they match the definitions of a list."""
        prefix = DEFINITIONS.storage_prefix
        definitions = {
            kv.key.decode(errors="replace").removeprefix(prefix): kv for kv in kvs if kv.key.startswith(prefix.encode())
        }
        for name in self._custom.keys() - definitions.keys():
            self._redefine(name, None, 0)
        for name, kv in definitions.items():
            self._redefine(name, stored(kv), kv.mod_revision)

    def _redefine(self, name: str, definition: StoredObject | None, revision: int) -> None:
        """Apply the current state of one definition; the history of a new resource begins at `revision`."""
        resource = None if definition is None or self._definitions is None else _declared(name, definition)
        held = self._custom.get(name)
        if held is not None and resource is not None and held.resource.storage_prefix == resource.storage_prefix:
            return
        if held is not None:
            self.caches.remove(self._custom.pop(name))
            self._unclaimed.leave(held.resource.storage_prefix, held.objects)
        if resource is not None:
            cache = self._custom[name] = ResourceCache(resource, self._options.window, self._shared_revision)
            cache.load(self._unclaimed.claim(resource.storage_prefix), revision)
            cache.position = revision
            self.caches.append(cache)
        if held is not None or resource is not None:
            self._demux = Demux(self.caches)
            self.generation += 1


def _declared(name: str, definition: StoredObject) -> Resource | None:
    """Return the defined resource; None if it cannot be decoded or is not named `plural.group`.

    The name guarantees that no two definitions share a prefix.
    """
    try:
        resource = declared(read_json_object(definition.value))
    except msgspec.DecodeError:  # anything may be stored
        return None
    return resource if resource is not None and resource.full_name == name and resource.group != EXTENSIONS else None
