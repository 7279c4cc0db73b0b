"""The streams of one store's resources on the bus, owned once its state is complete and as long as there is one."""

import asyncio
from collections.abc import Iterable

from actors.watchcache.cache.resource_cache import ResourceCache, op_of
from actors.watchcache.cache.store_state import Change, State
from protocols.bus import Bus, Event, Item, Op, Stream, Value
from protocols.messages.objects import DIGEST_KEY, stream_of

TICK_EVERY = 0.2
"""Seconds between ticks while changes keep coming: each costs every follower as much as half an event."""


class Proven:
    """The source of one stream. Followers of an earlier process get a digest behind the replay: it tells them whether
    what they applied before is this history, too."""

    def __init__(self, cache: ResourceCache) -> None:
        self._cache = cache

    def snapshot(self) -> Iterable[Item]:
        return self._cache.snapshot()

    def since(self, mark: int) -> Iterable[Event[Value]] | None:
        events = self._cache.since(mark)
        if events is None:
            return None
        return [*events, Event(Op.UPSERT, DIGEST_KEY, self._cache.digest())]


class Streams:
    """Publishes changes, and moves every stream's mark with them: a revision is the whole store's. The marks of streams
    without a change are moved when they are told."""

    def __init__(self, bus: Bus, state: State) -> None:
        self._bus, self._state = bus, state
        self._streams: dict[ResourceCache, Stream] = {}
        self._generation = -1
        self._ticked = 0.0
        self._later: asyncio.TimerHandle | None = None

    def tell(self, changes: list[Change]) -> None:
        """First call: the state is complete. A stream that is new holds these changes in its snapshot already."""
        for change in changes:
            stream = self._streams.get(change.cache)
            if stream is not None:
                change.cache.published += 1
                stream.publish(op_of(change.event), change.key, change.event, change.event.rv)
        if self._generation != self._state.generation:
            self._generation = self._state.generation
            self._own()
        self._tick(bool(changes))

    def _tick(self, busy: bool) -> None:
        """An event brings its own stream's mark with it. Those of all others follow at most every TICK_EVERY while
        changes keep coming: who needs one sooner asks, and `hurry` answers."""
        loop = asyncio.get_running_loop()
        if not busy or loop.time() >= self._ticked + TICK_EVERY:
            self._ticked = loop.time()
            for cache, stream in self._streams.items():
                stream.set_mark(cache.position)
            self._bus.tick()
        elif self._later is None:
            self._later = loop.call_at(self._ticked + TICK_EVERY, self._tick_late)

    def hurry(self) -> None:
        """Somebody waits for a mark: tell now what was held back."""
        if self._later is not None:
            self._later.cancel()
            self._tick_late()

    def _tick_late(self) -> None:
        self._later = None
        self._tick(False)

    def _own(self) -> None:
        """Give up streams before new ones are owned: a resource may have gone and come back in one batch."""
        for cache in self._streams.keys() - set(self._state.caches):
            self._bus.disown(self._streams.pop(cache).name)
        for cache in self._state.caches:
            if cache not in self._streams:
                name = stream_of(cache.resource.group, cache.resource.plural)
                self._streams[cache] = self._bus.own(name, Proven(cache), mark=cache.position)
