"""NodePrepareResources answers for a claim of several devices, each with its own CDI devices."""

from supervisor.conform.dra.driver_peer import SAMPLE, DriverPeer, key_of, keys
from supervisor.conform.sources import DRA_API
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "A claim may have several devices; each is an entry, and a container gets the CDI ids of its requests."
SOURCE = DRA_API
ADVICE = "Loop over all results of the allocation, and give each device only the CDI ids that belong to it."


async def check(driver: DriverPeer) -> None:
    """Prepare a claim of the first devices."""
    offered = driver.offered(2)[:SAMPLE]
    async with driver.claim(offered) as claim:
        devices = await driver.prepared(claim)
    if [key_of(each) for each in devices] != keys(offered):
        raise Failed(f"{len(offered)} devices were allocated, the answer has {len(devices)}, or others")
    first, second = set(devices[0].cdi_device_ids), set(devices[1].cdi_device_ids)
    if first and first < second:
        raise Failed(f"{devices[1].device_name} has the CDI ids of {devices[0].device_name} as well")
