"""The tasks that keep a world up to date. Each survives the loss of what it reads.

Metrics of single actors are read as small pages each few seconds, and one large page of an API process at a time.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from protocols.bus import Bus, BusError, BusOptions
from protocols.messages import devices
from protocols.messages.supervisor import METRICS, Empty, MetricsText
from protocols.process.layout import Layout
from protocols.process.tasks import awaited, cancel
from protocols.recording.samples import NAMES, SERVER, names_of
from supervisor.calls.client import CallBatch, CallQuery, CallReader
from supervisor.client.connection import Asking
from supervisor.console.feed.api import Api
from supervisor.console.feed.streams import follow_all
from supervisor.console.feed.supervisors import Supervisors
from supervisor.console.model.metrics import Page
from supervisor.console.model.world import World

SMALL_S = 5.0
SERVER_S = 30.0
"""The page of an API process costs it 60 ms, so one process answers per period, however many there are."""
WATCHED_S = 10.0
"""The period while the Watch page is shown, the only one that needs it soon."""
SETTLED_S = 3.0
"""An API process is read this long after its start: by then its clients are back."""
STEP_S = 0.5
TIMEOUT_S = 5.0


class MetricsFeed:
    """The part of the feed that fills timeline, PLEG and the Watch page."""

    def __init__(self, bus: Bus, world: World) -> None:
        self._bus = bus
        self._world = world
        self._next = 0
        self._seen: dict[str, int] = {}
        self.watched = False
        """True while the Watch page is shown."""

    async def small(self) -> None:
        """Read the pages of the actors that have something to plot, until cancelled."""
        while True:
            for actor in NAMES:
                if actor in self._world.house.actors:
                    await self._read(actor)
            await asyncio.sleep(SMALL_S if self._world.house.actors else STEP_S)

    async def servers(self) -> None:
        """Read one API process after the other until cancelled."""
        due = 0.0
        while True:
            await asyncio.sleep(STEP_S)
            servers = self._servers()
            self._world.watch.forget_servers(set(servers))
            due -= STEP_S
            if started := [name for name, pid in servers.items() if self._seen.get(name, pid) != pid]:
                self._seen = servers
                due = min(due, SETTLED_S)
                self._next = sorted(servers).index(started[0]) - 1
            elif servers and due <= (0.0 if not self.watched else SERVER_S - WATCHED_S):
                self._seen, due = servers, SERVER_S
                self._next = (self._next + 1) % len(servers)
                await self._read(sorted(servers)[self._next])

    def _servers(self) -> dict[str, int]:
        """Return the pids of the API processes that serve."""
        actors = self._world.house.actors.values()
        return {actor.name: actor.status.pid for actor in actors if actor.name.startswith(SERVER) and actor.serving}

    async def _read(self, instance: str) -> None:
        text = await self._text(instance)
        if text is not None:
            self._world.measured(instance, Page(text, names_of(instance)), time.time())
            self._world.changed()

    async def _text(self, instance: str) -> str | None:
        try:
            reply = await self._bus.call(instance, METRICS, Empty(), MetricsText, timeout=TIMEOUT_S)
        except BusError:
            return None  # it is away; its box says so
        return reply.text


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
