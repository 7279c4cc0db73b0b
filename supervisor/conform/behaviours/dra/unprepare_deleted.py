"""A claim is unprepared although it is deleted or without its allocation: claims of dead pods."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.sources import DRA_API, DRA_MANAGER
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "When a kubelet returns late, the claim of a dead pod may be gone from the API, or belong to nobody, before."
SOURCE = f"{DRA_API}; {DRA_MANAGER}"
ADVICE = "Do not read the claim from the API to unprepare it: remember what is needed under its uid, in a file."


async def check(driver: DriverPeer) -> None:
    """Unprepare a claim without its allocation, then one that was deleted."""
    for what, take in (("without its allocation", driver.objects.deallocate), ("deleted", driver.objects.delete_claim)):
        async with driver.claim(driver.offered()[:1]) as claim:
            await driver.prepared(claim)
            await take(claim.name)
            try:
                await driver.unprepared(claim)
            except Failed as error:
                raise Failed(f"a claim that is {what}: {error}") from None
