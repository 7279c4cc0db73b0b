"""Read metrics of single actors: small pages each few seconds, one large page of an API process at a time."""

import asyncio
import time

from protocols.bus import Bus, BusError
from protocols.messages.supervisor import METRICS, Empty, MetricsText
from protocols.recording.samples import NAMES, SERVER, names_of
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
