"""The devices profile: flows of claims and devices beside a driver that publishes their pools again and again."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from protocols.dra.tracker.tracker import Tracker
from protocols.kubeclient.client import ClientOptions
from tests.simulation.devices.applied import Applied
from tests.simulation.devices.budgets import Budgets
from tests.simulation.devices.counted import SLICES, Counted
from tests.simulation.devices.driver import Driver
from tests.simulation.devices.patches import Patches, shown_wrong
from tests.simulation.devices.preemption import Preemption
from tests.simulation.devices.rivals import Rivals
from tests.simulation.devices.shared import Shared, draw_consumers
from tests.simulation.model import Broken, Main
from tests.simulation.workloads.profile import Makers, WorkloadsProfile
from tests.simulation.world.patching import patch

if TYPE_CHECKING:
    from tests.simulation.world.world import World

DRIVER, TRACKERS = "driver", "trackers"
READERS = {"scheduler": True, "controllers": False}
"""Processes that read patched devices, and whether they read them with the taints of rules."""


class DevicesProfile(WorkloadsProfile):
    flows: Makers = (Patches, Shared, Preemption, Applied)

    def __init__(self, world: "World") -> None:
        draw_consumers(world)
        _note_trackers(world)
        super().__init__(world)

    def stand_ins(self, options: ClientOptions) -> dict[str, Main]:
        self._driver = Driver([flow.name for flow in self._flows], [Patches.name], {Counted.name: SLICES})
        return {**super().stand_ins(options), DRIVER: self._driver.main(options)}

    def quiesce(self) -> None:
        self._driver.ended = True
        super().quiesce()

    def check(self) -> list[Broken]:
        return [*super().check(), *self._views()]

    def _views(self) -> Iterator[Broken]:
        """In the end each reader of devices has them as slices, patches and rules make them."""
        stored = self._plane.history.stored("resourceslices", "resourceslicepatches", "devicetaintrules")
        for name, ruled in READERS.items():
            process = self._world.processes.get(name)
            for tracker in process.notes.get(TRACKERS, ()) if process else ():
                yield from shown_wrong(name, tracker.slices(), stored, ruled)


class ClaimsProfile(DevicesProfile):
    """Flows of what claims share and fight for."""

    flows: Makers = (Rivals, Counted, Budgets)


def _note_trackers(world: "World") -> None:
    """Have each process note the trackers that it makes."""
    init = Tracker.__init__

    def made(tracker: Tracker, *args: Any) -> None:
        init(tracker, *args)
        if world.current is not None:
            world.current.notes.setdefault(TRACKERS, []).append(tracker)

    patch(Tracker, "__init__", made)
