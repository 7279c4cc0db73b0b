"""The table of profiles by name. A profile's module is imported only when it runs: imports cost seconds."""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.model import Profile

if TYPE_CHECKING:
    from tests.simulation.world.world import World

Maker = Callable[["World"], Profile]

PLACES = {
    "store": "tests.simulation.control.profile:StoreProfile",
    "control": "tests.simulation.control.profile:ControlProfile",
    "restored": "tests.simulation.control.restored:RestoredProfile",
    "node": "tests.simulation.node.profile:NodeProfile",
    "backup": "tests.simulation.node.backup:BackupProfile",
    "plane": "tests.simulation.plane.profile:PlaneProfile",
    "lost": "tests.simulation.plane.lost:LostProfile",
    "resized": "tests.simulation.plane.resized:ResizedProfile",
    "workloads": "tests.simulation.workloads.profile:WorkloadsProfile",
    "custom": "tests.simulation.workloads.profile:CustomProfile",
    "devices": "tests.simulation.devices.profile:DevicesProfile",
    "claims": "tests.simulation.devices.profile:ClaimsProfile",
    "scripts": "tests.simulation.scripts.profile:ScriptsProfile",
}
"""`module:factory` by name."""


def profile(name: str) -> Maker:
    """Return the factory of a profile. Raises KeyError."""
    module, _, factory = PLACES[name].partition(":")
    made: Maker = getattr(importlib.import_module(module), factory)
    return made
