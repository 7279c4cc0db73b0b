"""A fleet that runs: its nodes and pods, and the tasks that keep them alive."""

import asyncio

import msgspec

from actors.fleet.profiles.expand import NodeTemplate
from actors.fleet.shell.nodes import FleetNodes
from actors.fleet.shell.pods import FleetPods
from actors.fleet.simulated.node import Node
from protocols.kube.meta import Object
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder, RecorderOptions

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
    pools: tuple[Object, ...] = ()
    """Specs of ResourceSlices that belong to no single node; their drivers run on every node."""


class Fleet:
    """Call `run` in a task; `nodes` and `pods` are its state."""

    def __init__(self, client: ApiClient, options: FleetOptions) -> None:
        self.client = client
        self.options = options
        everywhere = frozenset(str(spec["driver"]) for spec in options.pools)
        self.nodes = {each.name: Node(each, number, everywhere) for number, each in enumerate(options.templates)}
        self.recorders = [EventRecorder(client, RecorderOptions(component=COMPONENT)) for _ in range(RECORDERS)]
        self.pods = FleetPods(client, self.nodes, self.recorders, options.start_s)
        self.registry = FleetNodes(client, self.nodes, options.name, options.pools, self.pods.wake_node)

    async def run(self) -> None:
        """Never returns."""
        await asyncio.gather(self.registry.run(), self.pods.run(), *(recorder.run() for recorder in self.recorders))
