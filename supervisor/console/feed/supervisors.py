"""Poll the status of a plane and the usage of its processes, and send orders of the user."""

import asyncio
import signal
import time

from protocols.process.tasks import wait_set
from supervisor.base.errors import SupervisorError
from supervisor.client.connection import Asking
from supervisor.console.feed.processes import Deaths, ProcessSampler
from supervisor.console.model.world import World

STATUS_S, UNSETTLED_S = 1.0, 0.1
"""Time between polls of a plane at rest, and of one in which an actor does not serve."""
UNSETTLED_MOST_S = 10.0
"""A plane that is unsettled for longer is polled at the pace of one at rest."""
USAGE_S = 2.0
TIMEOUT_S = 3.0
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "continue": signal.SIGCONT}


class Supervisors:
    """The part of the feed that fills `world.house`."""

    def __init__(self, asking: Asking, world: World) -> None:
        self._asking = asking
        self._world = world
        self._sampler = ProcessSampler()
        self._deaths = Deaths(self._died)
        self._wake = asyncio.Event()
        self._unsettled_at = 0.0

    async def poll(self) -> None:
        """Follow the status until cancelled."""
        try:
            while True:
                self._wake.clear()  # what happens from now on is not in this status
                await self._update()
                await self._pause()
        finally:
            self._deaths.close()

    async def measure(self) -> None:
        """Sample CPU and memory until cancelled."""
        while True:
            house = self._world.house
            pids = {actor.name: actor.status.pid for actor in house.actors.values() if actor.status.pid}
            if house.pid:
                pids["supervisor"] = house.pid
            usage = await asyncio.to_thread(self._sampler.sample, pids)
            house.measured(usage, time.time())
            self._world.changed()
            await asyncio.sleep(USAGE_S)

    async def order(self, instance: str, action: str) -> None:
        """Restart, kill, stop or continue an actor. Raises SupervisorError."""
        if action == "restart":
            await self._asking.restart(instance)
        else:
            await self._asking.kill(instance, int(SIGNALS[action]))
        self._wake.set()

    async def _update(self) -> None:
        house = self._world.house
        try:
            status = await self._asking.status(TIMEOUT_S)
        except (SupervisorError, OSError) as error:
            house.lost(str(error))
        else:
            house.update(status, time.time())
            self._world.watch.moved(house, time.time())
            house.notes = self._world.watch.notes(house)
            self._deaths.watch({actor.instance: actor.pid for actor in status.actors if actor.pid})
        self._world.changed()

    async def _pause(self) -> None:
        now, house = time.monotonic(), self._world.house
        if house.settled or house.failure:
            self._unsettled_at = 0.0
        else:
            self._unsettled_at = self._unsettled_at or now
        busy = self._unsettled_at and now - self._unsettled_at < UNSETTLED_MOST_S
        await wait_set(self._wake, UNSETTLED_S if busy else STATUS_S)

    def _died(self, instance: str) -> None:
        self._world.house.died(instance, time.time())
        self._world.changed()
        self._wake.set()
