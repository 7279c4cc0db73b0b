"""All resources at one revision: lists and batches go in, events to publish come out. Pure; time is given."""

from collections.abc import Iterable

import msgspec

from actors.watchcache.cache import ResourceCache, Stored, stored
from actors.watchcache.demux import Demux
from actors.watchcache.options import WatchcacheOptions
from protocols.etcd import KeyValue, WatchBatch
from protocols.messages.objects import ObjectEvent


class Change(msgspec.Struct, frozen=True):
    """An event to publish on a resource's stream."""

    cache: ResourceCache
    key: str
    event: ObjectEvent


class State:
    """`position`: everything up to it has been taken in. What comes up to `listed` (the revision of the list) is
    history the list has seen already: it fills the windows, and is published only past `goal`.

    `goal` is `listed` where the store tells progress in order. Where it does not, it is the newest change among the
    listed keys: its event is sure to come, and past it only deletions can still belong to the list.
    """

    def __init__(self, options: WatchcacheOptions) -> None:
        self._options = options
        self.caches = [ResourceCache(resource, options.window) for resource in options.resources]
        self._demux = Demux(self.caches)
        self.listed = 0
        self.goal = 0
        self.position = 0
        self.progress = 0
        """Progress notifications so far."""

    @property
    def complete(self) -> bool:
        """The windows are filled: streams may be told."""
        return self.listed > 0 and self.position >= self.goal

    def load(self, kvs: list[KeyValue], revision: int, in_order: bool = True) -> None:
        """The first list: history is to be read from `position` on."""
        self.listed = revision
        self.goal = revision if in_order else max((kv.mod_revision for kv in kvs), default=0)
        self.position = max(revision - self._options.resume_revisions, 0)
        objects = self._sorted_out(kvs)
        for cache in self.caches:
            cache.load(objects[cache.resource.storage_prefix], self.position)

    def skip_to(self, revision: int) -> None:
        """History up to `revision` is compacted."""
        self.position = max(self.position, revision)
        for cache in self.caches:
            cache.window.raise_floor(revision)

    def replace(self, kvs: Iterable[KeyValue], revision: int) -> list[Change]:
        """A later list, after a compaction beyond `position`."""
        self.listed = self.goal = self.position = revision
        objects = self._sorted_out(kvs)
        changes = [
            Change(cache, key, event)
            for cache in self.caches
            for key, event in cache.replace(objects[cache.resource.storage_prefix], revision)
        ]
        return sorted(changes, key=lambda change: change.event.rv)

    def _sorted_out(self, kvs: Iterable[KeyValue]) -> dict[str, dict[str, Stored]]:
        objects: dict[str, dict[str, Stored]] = {cache.resource.storage_prefix: {} for cache in self.caches}
        for kv in kvs:
            found = self._demux.find(kv.key)
            if found:
                cache, key = found
                objects[cache.resource.storage_prefix][key] = stored(kv)
        return objects

    def take(self, batch: WatchBatch, now: float) -> list[Change]:
        """A batch of the watch; what was taken in already is left out."""
        self.progress += batch.progress
        changes = []
        for event in batch.events:
            found = self._demux.find(event.kv.key) if event.kv.mod_revision > self.position else None
            if found is None:
                continue
            cache, key = found
            replayed = event.kv.mod_revision <= self.listed
            made = (cache.replay if replayed else cache.apply)(key, event, now)
            if made is not None and event.kv.mod_revision > self.goal:
                changes.append(Change(cache, key, made))
        self.position = max(self.position, batch.revision)
        return changes
