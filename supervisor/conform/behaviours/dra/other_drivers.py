"""Devices of other drivers in the same claim are not answered for."""

from supervisor.conform.dra.driver_peer import DriverPeer, key_of, keys
from supervisor.conform.sources import DRA_KEP, RESOURCE_API
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "A claim may have devices of several drivers; each prepares its own, the kubelet joins the answers."
SOURCE = f"{RESOURCE_API}; {DRA_KEP}"
ADVICE = "Skip results whose driver is not yours, without an error."
FOREIGN = {"request": "other", "driver": "other.nodeplane.example", "pool": "other", "device": "other"}


async def check(driver: DriverPeer) -> None:
    """Prepare a claim whose first result is another driver's."""
    offered = driver.offered()[0]
    claim = await driver.objects.create_claim([FOREIGN, offered.result()])
    try:
        if (found := [key_of(each) for each in await driver.prepared(claim)]) != keys([offered]):
            raise Failed(f"{offered.name} was allocated beside a device of another driver, the answer has {found}")
    finally:
        await driver.drop(claim)
