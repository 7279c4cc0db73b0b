"""The lost profile: the plane profile with an etcd that is restored, in each seed, from a backup that lacks one write.

Its writer has just gone on: it allocated a claim and binds the pod, it bound a pod, or it published devices.
"""

from typing import TYPE_CHECKING

from tests.simulation.model import Fault
from tests.simulation.plane.profile import PlaneProfile
from tests.simulation.world.faults import KINDS

if TYPE_CHECKING:
    from tests.simulation.world.world import World

AT_S = {"allocation": (1.0, 6.0), "binding": (1.0, 6.0), "devices": (0.0, 0.3)}
"""From when on the write is waited for."""


class LostProfile(PlaneProfile):
    etcd_share = 1.0
    means = 1.0, 3.0, 10.0

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self.kinds = tuple(kind for kind in self.kinds if kind != "restore")

    def begin(self) -> None:
        super().begin()
        chance = self.world.random("lost")
        what = chance.choice(tuple(AT_S))
        fault = Fault(0.0, "lose", what, chance.random())
        self.world.at(chance.uniform(*AT_S[what]), None, lambda: KINDS["lose"](self.world, fault))
