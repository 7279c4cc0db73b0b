"""A fleet that runs: its nodes and pods, and the tasks that keep them alive."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from actors.fleet.profiles.expand import NodeTemplate
from actors.fleet.shell.nodes import FleetNodes
from actors.fleet.shell.pods import FleetPods
from actors.fleet.simulated.node import Node
from protocols.dra.attacher import Attacher, AttacherOptions, Attachment
from protocols.dra.types import DeviceId
from protocols.kube.meta import Object
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder, RecorderOptions
from protocols.messages.devices import HEALTHY

COMPONENT = "kubelet"
"""Source of the events: those who read them expect a node's."""
RECORDERS = 16
"""Each writes the events of some nodes, one after another, and holds a bounded number of them."""


class FleetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes to simulate."""

    name: str
    """Name of the fleet, in the label of all its objects."""
    templates: tuple[NodeTemplate, ...]
    start_s: float = 0.0
    """Seconds from the admission of a pod until its containers run."""
    attach_s: float = 0.0
    """Seconds from the allocation of devices until their binding conditions are met."""
    pools: tuple[Object, ...] = ()
    """Specs of ResourceSlices that belong to no single node; their drivers run on every node."""


class Fleet:
    """Call `run` in a task; `nodes` and `pods` are its state."""

    def __init__(self, client: ApiClient, options: FleetOptions) -> None:
        self.client = client
        self.options = options
        everywhere = frozenset(str(spec["driver"]) for spec in options.pools)
        self.nodes = {
            template.name: Node(template, number, everywhere) for number, template in enumerate(options.templates)
        }
        self.recorders = [EventRecorder(client, RecorderOptions(component=COMPONENT)) for _ in range(RECORDERS)]
        self.pods = FleetPods(client, self.nodes, self.recorders, options.start_s)
        self.registry = FleetNodes(client, self.nodes, options.name, options.pools, self.pods.wake_node)
        self._owners = _owners_of_late_devices(self.nodes.values(), options.pools)

    async def run(self) -> None:
        """Never returns."""
        parts = [self.registry.run(), self.pods.run(), *(recorder.run() for recorder in self.recorders)]
        if self._owners:
            parts.append(self._attacher().run())
        await asyncio.gather(*parts)

    def _attacher(self) -> Attacher:
        return Attacher(
            AttacherOptions(
                client=self.client,
                is_mine=lambda result: (result.get("driver"), result.get("pool")) in self._owners,
                attach=self._attach,
                seconds=self.options.attach_s,
            )
        )

    def _attach(self, result: Mapping[str, Any]) -> Attachment | None:
        """A node attaches its devices while it and their driver are there; those of other pools always work."""
        driver, pool, device = result["driver"], result["pool"], result["device"]
        node = self._owners[driver, pool]
        if node is None:
            return Attachment(True)
        driver_state = node.devices.drivers[driver]
        if node.silent or not driver_state.connected:
            return None
        id = str(DeviceId(driver, pool, device))
        return Attachment(driver_state.devices.get(id) == HEALTHY, driver_state.messages.get(id, ""))


def _owners_of_late_devices(nodes: Iterable[Node], pools: Iterable[Object]) -> dict[tuple[str, str], Node | None]:
    """Return the node, or None, of each pool with binding conditions, by driver and pool."""
    shared = ((None, spec) for spec in pools)
    own = ((node, spec) for node in nodes for driver in node.template.drivers for spec in driver.slices)
    return {
        (spec["driver"], spec["pool"]["name"]): node
        for node, spec in (*shared, *own)
        if any(device.get("bindingConditions") for device in spec.get("devices") or ())
    }
