"""NodePrepareResources answers for a claim, with the devices of its allocation."""

from supervisor.conform.dra.driver_peer import DriverPeer, key_of, keys
from supervisor.conform.dra.objects import REQUEST
from supervisor.conform.sources import DRA_API, DRA_KEP
from supervisor.conform.verdict import Failed

PHASE, ORDER = "calls", 0
RULE = (
    "The answer has an entry for the uid of each claim, with the pool and name of each device that the claim's"
    " status allocates to it, and the requests it is for."
)
SOURCE = f"{DRA_API}; {DRA_KEP}"
ADVICE = (
    "Read status.allocation.devices.results of the claim, take those of your driver; copy request, pool and device."
)


async def check(driver: DriverPeer) -> None:
    """Prepare a claim for each of the first devices."""
    for offered in driver.offered()[:2]:
        async with driver.claim([offered]) as claim:
            devices = await driver.prepared(claim)
            if [key_of(each) for each in devices] != keys([offered]):
                found = ", ".join("/".join(key_of(each)) for each in devices) or "none"
                raise Failed(f"{offered.pool}/{offered.name} was allocated, the answer has {found}")
            if (names := list(devices[0].request_names)) != [REQUEST]:
                raise Failed(f"the request is called {REQUEST}, request_names of {offered.name} is {names}")
