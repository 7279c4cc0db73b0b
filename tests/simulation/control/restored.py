"""The restored profile: the model of an etcd that is restored from a backup in each seed, and replicas of it.

A share of the writes goes to a collection that is quiet, and to many keys: what a restore took away, or gave back, is
not written over a moment later.
"""

from typing import TYPE_CHECKING

from tests.simulation.control.profile import StoreProfile
from tests.simulation.etcd.faults import BUMP, OLDEST
from tests.simulation.model import Fault
from tests.simulation.world.faults import KINDS

if TYPE_CHECKING:
    from tests.simulation.world.world import World

AT_S = 1.0, 5.0
BACK = 1, 3, 6, 12
"""Revisions that are lost; one is drawn. Few: soon the store has as many again, and a quiet collection lost none."""


AWAY = "clients", "watchcache", "etcd"
"""Who does nothing for AWAY_S after the restore: the watch cache returns to a store that is behind it, or ahead.

The etcd is away for OUTAGE_S, and the watch cache starts meanwhile: longer than any call waits for a connection."""
AWAY_S, OUTAGE_S = 3.0, 8.0


class RestoredProfile(StoreProfile):
    kinds: tuple[str, ...] = ("kill", "pause", "cut")
    beside = ("limitranges",)
    rare = 0.2
    etcd_share = 1.0
    bumps = 0, 0, BUMP
    means = 1.0, 3.0

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self.kinds = tuple(kind for kind in self.kinds if kind != "restore")
        self._away = AWAY[int(world.draw("restored_away", 2, 1, 0))]

    def begin(self) -> None:
        super().begin()
        self._world.at(self._world.random("restored").uniform(*AT_S), None, self._restore)

    def _restore(self) -> None:
        world = self._world
        back = world.random("restored").choice(BACK)
        for name in self._clients if self._away == "clients" else (self._away,):
            if (process := world.processes.get(name)) is not None:
                process.paused_until = world.now + AWAY_S
        KINDS["backup"](world, Fault(world.elapsed, "backup", "etcd", (back + 0.5) / OLDEST))
        if self._away == "etcd" and self._plane.cluster is not None:
            for member in self._plane.cluster.members:
                member.go_away(OUTAGE_S)
            world.kill_by_fault("watchcache")
