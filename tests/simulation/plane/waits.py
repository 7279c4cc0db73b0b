"""Pods that wait for what a node has: once all is well, each is bound soon."""

from typing import TYPE_CHECKING

from tests.simulation.model import Broken
from tests.simulation.node.pods import has_ended
from tests.simulation.plane.oracle import RESOURCES, waiting

if TYPE_CHECKING:
    from tests.simulation.plane.profile import PlaneProfile

AFTER_S = 12.0
"""Seconds after the last fault from which on all is well: attempts that failed by it back off for 10 s."""
SOON_S = 3.0
EVERY_S = 1.0


class Waits:
    """Looks each second; whoever waits while the scheduler runs has waited in vain after SOON_S."""

    def __init__(self, profile: "PlaneProfile") -> None:
        self._profile = profile
        self._since: dict[str, float] = {}
        self._scheduler = 0
        self.broken: list[Broken] = []

    def begin(self) -> None:
        self._profile.world.at(AFTER_S, None, self._look)

    def _look(self) -> None:
        profile, world = self._profile, self._profile.world
        scheduler = world.processes.get("scheduler")
        pid = scheduler.pid if scheduler else 0
        since = self._since if pid and pid == self._scheduler else {}
        stored = profile.control.history.stored(*RESOURCES)
        stored["pods"] = {key: pod for key, pod in stored["pods"].items() if not has_ended(pod)}
        found = waiting(profile.nodes, stored)
        self._since = {key: since.get(key, world.elapsed) for key in found}
        self._scheduler = pid
        for key, at in self._since.items():
            if SOON_S <= world.elapsed - at < SOON_S + EVERY_S:
                self.broken.append(Broken("what fits is bound soon", found[key], world.elapsed))
        world.at(EVERY_S, None, self._look)
