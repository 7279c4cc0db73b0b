"""The tasks that keep a world up to date. Each survives the loss of what it reads."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from protocols.bus import Bus, BusOptions
from protocols.messages import devices
from protocols.process.layout import Layout
from protocols.process.tasks import awaited, cancel
from supervisor.calls.client import CallBatch, CallQuery, CallReader
from supervisor.client.connection import Asking
from supervisor.console.feed.api import Api
from supervisor.console.feed.metrics import MetricsFeed
from supervisor.console.feed.streams import follow_all
from supervisor.console.feed.supervisors import Supervisors
from supervisor.console.model.world import World

log = logging.getLogger(__name__)
RETRY_S, FIRST_S = 2.0, 0.2


class Feed:
    """Use it in one event loop: start(), then close()."""

    def __init__(self, layout: Layout, world: World) -> None:
        self.layout = layout
        self.world = world
        self._bus = Bus(BusOptions(name="", run_dir=layout.run, on_fault=self._fault))
        self._asking = Asking(self._bus, layout)
        self._tasks: list[asyncio.Task[None]] = []
        self.supervisors = Supervisors(self._asking, world)
        self.metrics = MetricsFeed(self._bus, world)
        self.api = Api(layout, world)

    async def start(self) -> None:
        await self._bus.start()
        follow_all(self._bus, self.world)
        self._tasks = [awaited(self._forever(work)) for work in self._work()]

    async def close(self) -> None:
        try:
            await cancel(*self._tasks)
        finally:  # also of a console that ends while one of them hangs
            await self._bus.close()

    def _work(self) -> list[Callable[[], Awaitable[None]]]:
        supervisors, metrics = self.supervisors, self.metrics
        return [supervisors.poll, supervisors.measure, metrics.small, metrics.servers, self.api.follow]

    async def break_device(self, resource: str, id: str, health: str) -> None:
        """Override a device's health; an empty health ends the override. Raises SupervisorError."""
        await self._asking.override_health(devices.ChaosDevice(resource=resource, id=id, health=health))

    def calls(self, peer: str) -> AsyncIterator[CallBatch]:
        """Follow the calls of a plugin's resource or of a driver. Raises SupervisorError."""
        return CallReader(self._bus, CallQuery(peer)).follow()

    async def _forever(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a task again when it fails: the console shows what is left of a plane."""
        while True:
            try:
                await work()
            except Exception as error:  # a fault of one source must not end the others
                log.warning("source failed error=%s: %s", type(error).__name__, error)
            await asyncio.sleep(RETRY_S if self.world.house.actors else FIRST_S)

    def _fault(self, error: BaseException) -> None:
        log.warning("sink failed error=%s: %s", type(error).__name__, error)
