"""Publish the resources of one store as streams on the bus."""

import asyncio
from collections.abc import Iterable

from msgspec.structs import replace

from actors.watchcache.cache.resource_cache import ResourceCache, op_of
from actors.watchcache.cache.store_state import PublishedEvent, StoreState
from protocols.bus import Bus, Event, Item, Op, Stream, Value
from protocols.messages.objects import DIGEST_KEY, stream_of

TICK_EVERY = 0.2
"""Seconds between ticks while changes keep coming: each costs every follower as much as half an event."""


class ResourceStream:
    """The source of one stream.

    A follower that resumes gets a digest after the replay, with which it verifies what it applied before.
    """

    def __init__(self, cache: ResourceCache) -> None:
        self._cache = cache

    def snapshot(self) -> Iterable[Item]:
        return self._cache.snapshot()

    def since(self, mark: int) -> Iterable[Event[Value]] | None:
        events = self._cache.since(mark)
        if events is None:
            return None
        return [*events, Event(Op.UPSERT, DIGEST_KEY, self._cache.digest())]


class BusStreams:
    """Publish changes and advance the marks of all streams: a revision counts for the whole store."""

    def __init__(self, bus: Bus, state: StoreState) -> None:
        self._bus, self._state = bus, state
        self._streams: dict[ResourceCache, Stream] = {}
        self._generation = -1
        self._ticked = 0.0
        self._delayed_tick: asyncio.TimerHandle | None = None

    def publish(self, changes: list[PublishedEvent]) -> None:
        # The first call comes when the state is complete. The snapshot of a new stream contains these changes already.
        last = {(change.cache, change.event.rv): change for change in changes}
        for change in changes:
            stream, event = self._streams.get(change.cache), change.event
            if stream is not None:
                change.cache.published += 1
                if last[change.cache, event.rv] is not change:  # the followers may serve requests between the two
                    event = replace(event, more=True)
                stream.publish(op_of(event), change.key, event, event.rv)
        if self._generation != self._state.generation:
            self._own()
        self._tick(bool(changes))

    def begin_anew(self) -> None:
        """Own all streams anew: only a snapshot leads from what their followers hold to the state."""
        for stream in self._streams.values():
            self._bus.disown(stream.name)
        self._streams.clear()
        self._own()
        self._tick(False)

    def _tick(self, busy: bool) -> None:
        """Advance the marks of streams without events, at most every TICK_EVERY while changes keep coming.

        An event carries the mark of its own stream. A caller that needs another mark sooner uses `flush_marks`.
        """
        loop = asyncio.get_running_loop()
        if not busy or loop.time() >= self._ticked + TICK_EVERY:
            self._ticked = loop.time()
            for cache, stream in self._streams.items():
                stream.set_mark(cache.position)
            self._bus.tick()
        elif self._delayed_tick is None:
            self._delayed_tick = loop.call_at(self._ticked + TICK_EVERY, self._tick_delayed)

    def flush_marks(self) -> None:
        """Publish delayed marks now."""
        if self._delayed_tick is not None:
            self._delayed_tick.cancel()
            self._tick_delayed()

    def _tick_delayed(self) -> None:
        self._delayed_tick = None
        self._tick(False)

    def _own(self) -> None:
        self._generation = self._state.generation
        # Disown before owning: a resource may have been removed and added again in one batch.
        for cache in self._streams.keys() - set(self._state.caches):
            self._bus.disown(self._streams.pop(cache).name)
        for cache in self._state.caches:
            if cache not in self._streams:
                name = stream_of(cache.resource.group, cache.resource.plural)
                self._streams[cache] = self._bus.own(name, ResourceStream(cache), mark=cache.position)
