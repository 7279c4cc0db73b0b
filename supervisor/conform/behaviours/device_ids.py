"""Each device has an id of its own, of 1 to 63 characters."""

from collections import Counter

from supervisor.conform.peer import PluginPeer
from supervisor.conform.scripts import several
from supervisor.conform.sources import API
from supervisor.conform.verdict import Failed

PHASE = "list"
RULE = "The ID of a device is unique within its resource, not empty, and has at most 63 characters."
SOURCE = API
ADVICE = "Use a serial number, UUID or PCI address; of devices with one id the kubelet retains the last."
LONGEST = 63


async def check(plugin: PluginPeer) -> None:
    """Look at the newest list."""
    counts = Counter(plugin.ids)
    faults = [f"{counts['']} devices have an empty id"] if counts[""] else []
    faults += [f"the id {id!r} is there {count} times" for id, count in counts.items() if count > 1 and id]
    faults += [f"the id {id[:LONGEST]!r}... has {len(id)} characters" for id in counts if len(id) > LONGEST]
    if faults:
        raise Failed(several(faults))
