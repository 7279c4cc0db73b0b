"""Replicas seen from outside while the world runs: stale ones know it, and without faults none has to ask anew."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from protocols.bus import Following
from tests.simulation.model import Broken
from tests.simulation.world.process import Process

if TYPE_CHECKING:
    from tests.simulation.world.world import World

OBSERVE_S = 0.25
SILENT_S = 3.5
"""Seconds of silence after which a follower is stale."""
AWAKE_S = 1.75
"""Seconds in which a follower that runs must notice it: its clock, and what was on its way."""
CALM_AFTER_S = 10.0
STARTED_S = 5.0
"""All is calm once no process has started for so long."""
MOST = 3
"""Reports of one promise."""


class Calm:
    """Observes all followers of one owner."""

    def __init__(self, world: "World", owner: str) -> None:
        self._world, self._owner = world, owner
        self._heard = world.now
        self._ran = 0, 0
        """The owner's process and its turns when it was observed last."""
        self._awake: dict[str, tuple[int, float]] = {}
        self._syncs: dict[str, int] = {}
        self._pids: set[int] = set()
        self.broken: list[Broken] = []
        world.at(OBSERVE_S, None, self._observe)
        world.on_end.append(lambda process, code, number: self._hear(process))

    def _runs(self, process: Process | None) -> bool:
        return process is not None and process.paused_until <= self._world.now

    def _observe(self) -> None:
        world = self._world
        world.at(OBSERVE_S, None, self._observe)
        self._hear(world.processes.get(self._owner))
        for name, process in world.processes.items():
            following = process.notes.get("following")
            if following is not None:
                self._follower(name, process, following)

    def _hear(self, process: Process | None) -> None:
        """Note that followers hear the owner: it runs, or had turns since it was observed last."""
        if process is None or process.name != self._owner:
            return
        before, self._ran = self._ran, (process.pid, process.turns)
        if self._runs(process) or before != self._ran:
            self._heard = self._world.now

    def _follower(self, name: str, process: Process, following: Following[Any]) -> None:
        world = self._world
        pid, since = self._awake.get(name, (0, 0.0))
        if pid != process.pid or not self._runs(process):
            self._awake[name] = process.pid, world.now
        elif world.now - max(since, self._heard) > SILENT_S + AWAKE_S and following.synced:
            # what was sent while it was paused is heard when it goes on
            text = f"{name} is synced, {world.now - self._heard:.1f} s after {self._owner} stopped"
            self.broken.append(Broken("who is stale knows it", text, world.elapsed))

    def quiesce(self) -> None:
        """Faults have ended: a little later everything is calm, unless a process that hangs is yet to be ended."""
        self._world.at(CALM_AFTER_S, None, self._begin_calm)

    def _begin_calm(self) -> None:
        started, self._syncs, self._pids = self._pids_now() - self._pids, self._syncs_now(), self._pids_now()
        if started:
            self._world.at(STARTED_S, None, self._begin_calm)

    def _pids_now(self) -> set[int]:
        return {process.pid for process in self._world.processes.values()}

    def _syncs_now(self) -> dict[str, int]:
        every = ((name, process.notes.get("following")) for name, process in self._world.processes.items())
        return {name: following.syncs for name, following in every if following is not None}

    def check(self) -> Iterator[Broken]:
        """Return what was seen, and who synced although nothing happened."""
        yield from self.broken[:MOST]
        if self._pids_now() != self._pids:
            return
        for name, syncs in self._syncs_now().items():
            if syncs != self._syncs.get(name):
                yield Broken("no sync without a loss", f"{name} synced {syncs} times, until all was calm {self._syncs}")
