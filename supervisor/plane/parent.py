"""The connection of a node group to the plane's supervisor, for which it is an actor."""

from collections.abc import Callable

from protocols.actor.heartbeats import READY, Heartbeats
from protocols.bus import Bus, BusOptions, Call
from protocols.messages.supervisor import METRICS, STOP, Empty, MetricsText, StopPlane
from supervisor.startup.prepared import Parent

SEPARATE_PAGE = "# its metrics are on a page of its own\n"


class ParentLink:
    """`stop` begins the shutdown; with True it also stops containers."""

    def __init__(self, parent: Parent, stop: Callable[[bool], None]) -> None:
        self._parent = parent
        self._stop = stop
        self._bus = Bus(BusOptions(name=parent.instance, run_dir=parent.run_dir))
        self._beats: Heartbeats | None = None

    async def start(self) -> None:
        await self._bus.start()
        self._bus.serve(STOP, StopPlane, self._end)
        self._bus.serve(METRICS, Empty, self._page)
        self._beats = Heartbeats(self._bus, self._parent.supervisor)
        self._beats.start()

    def report(self, note: str, ready: bool = False) -> None:
        if self._beats and (ready or note != self._beats.note):
            self._beats.change(state=READY if ready else "", note=note)

    async def close(self) -> None:
        if self._beats:
            self._beats.stop()
        await self._bus.close()

    async def _end(self, request: StopPlane, call: Call) -> Empty:
        self._stop(request.containers)
        return Empty()

    async def _page(self, request: Empty, call: Call) -> MetricsText:
        return MetricsText(SEPARATE_PAGE)
