"""The cache's streams on the bus: one per resource, owned once the state is complete."""

from actors.watchcache.cache import op_of
from actors.watchcache.state import Change, State
from protocols.bus import Bus, Stream
from protocols.messages.objects import stream_of


class Streams:
    """Publishes changes, and moves every stream's mark with each of them: a revision is global."""

    def __init__(self, bus: Bus, state: State) -> None:
        self._bus, self._state = bus, state
        self._streams: dict[str, Stream] = {}

    def tell(self, changes: list[Change]) -> None:
        """First call: the state is complete, own the streams (their snapshots hold these changes). Later: publish."""
        if not self._streams:
            self._own()
            return
        for change in changes:
            stream = self._streams[change.cache.resource.storage_prefix]
            stream.publish(op_of(change.event), change.key, change.event, change.event.rv)
        for stream in self._streams.values():
            stream.set_mark(self._state.position)
        self._bus.tick()

    def _own(self) -> None:
        for cache in self._state.caches:
            name = stream_of(cache.resource.group, cache.resource.plural)
            self._streams[cache.resource.storage_prefix] = self._bus.own(name, cache, mark=self._state.position)
        self._bus.tick()
