"""Poll the status of a plane and send orders of the user.

CPU and memory of its processes, and the moment at which one of them ends, come from /proc.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping

from protocols.process.tasks import wait_set
from supervisor.base.errors import SupervisorError
from supervisor.cli.inspect.top import pss_mib
from supervisor.client.connection import Asking
from supervisor.console.model.plane import ActorUsage
from supervisor.console.model.world import World
from supervisor.tree.states import usage_of

PSS_S = 10.0
"""The kernel walks all mappings of a process for its PSS, so it is read less often."""


class ProcessSampler:
    """Usage by actor since the last sample. Processes of other machines or users show zeros."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float, float]] = {}
        self._pss: dict[int, float] = {}
        self._pss_at = float("-inf")

    def sample(self, pids: Mapping[str, int]) -> dict[str, ActorUsage]:
        """Return usage by name; blocks for about a millisecond per process, so run it in a thread."""
        now = time.monotonic()
        fresh = now - self._pss_at >= PSS_S
        if fresh:
            self._pss_at = now
        self._pss = {pid: self._memory(pid, fresh) for pid in pids.values()}
        return {name: self._usage(name, pid, now) for name, pid in pids.items()}

    def _memory(self, pid: int, fresh: bool) -> float:
        return pss_mib(pid) if fresh or not self._pss.get(pid) else self._pss[pid]

    def _usage(self, name: str, pid: int, now: float) -> ActorUsage:
        usage = usage_of(pid)
        cpu = self._cpu(name, pid, now, usage.cpu_s if usage else 0.0)
        return ActorUsage(cpu, self._pss[pid], stopped=usage is not None and usage.stopped)

    def _cpu(self, name: str, pid: int, now: float, used: float) -> float:
        old = self._seen.get(name)
        self._seen[name] = (pid, now, used)
        if old is None or old[0] != pid or now <= old[1]:
            return 0.0
        return max(0.0, (used - old[2]) / (now - old[1]) * 100)


class Deaths:
    """Calls back when a process ends. Uses one descriptor per actor."""

    def __init__(self, callback: Callable[[str], None]) -> None:
        self._callback = callback
        self._watched: dict[str, tuple[int, int]] = {}
        """Pid and pidfd by actor."""

    def watch(self, pids: Mapping[str, int]) -> None:
        """Watch these processes and no others."""
        for name in [name for name, (pid, _) in self._watched.items() if pids.get(name) != pid]:
            self._drop(name)
        for name in pids.keys() - self._watched.keys():
            self._add(name, pids[name])

    def close(self) -> None:
        self.watch({})

    def _add(self, name: str, pid: int) -> None:
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return  # it ended already, or descriptors are scarce: the status reports it
        self._watched[name] = (pid, descriptor)
        asyncio.get_running_loop().add_reader(descriptor, self._ended, name)

    def _ended(self, name: str) -> None:
        self._drop(name)
        self._callback(name)

    def _drop(self, name: str) -> None:
        _, descriptor = self._watched.pop(name)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


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
