"""NUMA nodes of devices are numbers from 0."""

from supervisor.conform.peer import PluginPeer
from supervisor.conform.scripts import several
from supervisor.conform.sources import API, DOCS
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "list"
RULE = "topology names NUMA nodes that exist, from 0; a device without a NUMA node has no topology."
SOURCE = f"{API}; {DOCS}"
ADVICE = "Leave topology out where /sys/bus/pci/devices/ADDRESS/numa_node is -1: that means that no node is known."


async def check(plugin: PluginPeer) -> None:
    """Look at the newest list."""
    devices = [device for device in plugin.devices if device.HasField("topology")]
    if not devices:
        raise NotApplicable("no device has a topology")
    faults = []
    for device in devices:
        nodes = [node.ID for node in device.topology.nodes]
        if not nodes or min(nodes) < 0 or len(set(nodes)) < len(nodes):
            faults.append(f"{device.ID} has the NUMA nodes {nodes}")
    if faults:
        raise Failed(several(faults))
