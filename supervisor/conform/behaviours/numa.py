"""NUMA nodes of devices are numbers from 0."""

from supervisor.conform.peer import PluginPeer
from supervisor.conform.scripts import several
from supervisor.conform.sources import API, BITMASK, DOCS
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "list"
RULE = (
    "topology names NUMA nodes that exist, from 0; kubelet knows none above 63; a device without a NUMA node has no"
    " topology."
)
SOURCE = f"{API}; {DOCS}; {BITMASK}"
ADVICE = (
    "Send the number in /sys/bus/pci/devices/ADDRESS/numa_node, and leave topology out where that is -1: no node is"
    " known."
)
LAST = 63


async def check(plugin: PluginPeer) -> None:
    """Look at the newest list."""
    devices = [device for device in plugin.devices if device.HasField("topology")]
    if not devices:
        raise NotApplicable("no device has a topology")
    faults = []
    for device in devices:
        nodes = [node.ID for node in device.topology.nodes]
        if not nodes or min(nodes) < 0 or max(nodes) > LAST or len(set(nodes)) < len(nodes):
            faults.append(f"{device.ID} has the NUMA nodes {nodes}")
    if faults:
        raise Failed(several(faults))
