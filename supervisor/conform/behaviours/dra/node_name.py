"""Slices of devices of the node name the node."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.sources import DRA_KEP, RESOURCE_API
from supervisor.conform.verdict import Failed

PHASE = "slices"
RULE = (
    "nodeName is the name of the Node object: the kubelet deletes slices by it, a driver may write no others, and"
    " pods are scheduled by it. Devices that all nodes reach have allNodes or nodeSelector instead."
)
SOURCE = f"{RESOURCE_API}; {DRA_KEP}"
ADVICE = "Take the name from the downward API (spec.nodeName) or NODE_NAME, not from the host's name."
OTHERS = ("allNodes", "nodeSelector", "perDeviceNodeSelection")


async def check(driver: DriverPeer) -> None:
    """Look at the newest slices."""
    for each in (each for pool in driver.pools for each in pool.slices):
        spec, name = each["spec"], each["metadata"]["name"]
        if not any(spec.get(other) for other in OTHERS) and spec.get("nodeName") != driver.objects.node:
            raise Failed(f"slice {name} has nodeName {spec.get('nodeName')!r}, the node is {driver.objects.node}")
