"""A claim that was given back and is allocated to another device is prepared with that."""

from supervisor.conform.dra.driver_peer import DriverPeer, key_of, keys
from supervisor.conform.sources import DRA_API, RESOURCE_API
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = (
    "A claim outlives its pods: it loses its allocation with the last one, and gets another with the next; the uid is"
    " the same."
)
SOURCE = f"{RESOURCE_API}; {DRA_API}"
ADVICE = "Forget a claim when it is unprepared, and read its allocation from the API when it is prepared."


async def check(driver: DriverPeer) -> None:
    """Prepare and unprepare a claim of one device, then of another."""
    first, second = driver.offered(2)[:2]
    async with driver.claim([first]) as claim:
        await driver.prepared(claim)
        await driver.unprepared(claim)
        await driver.objects.deallocate(claim.name)
        await driver.objects.allocate(claim.name, [second.result()])
        found = [key_of(each) for each in await driver.prepared(claim)]
        if found != keys([second]):
            names = ", ".join(map("/".join, found)) or "none"
            raise Failed(f"the claim had {first.name}, and was allocated {second.name} later; the answer has {names}")
