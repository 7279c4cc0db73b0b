"""NodePrepareResources answers the same for a claim that is prepared already."""

from supervisor.conform.dra.driver_peer import SAMPLE, DriverPeer, contents
from supervisor.conform.sources import DRA_API, DRA_MANAGER
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = (
    "A claim is prepared again after a kubelet restart, after an error of another driver, and for the next pod that"
    " shares it; the answer is the same."
)
SOURCE = f"{DRA_API}; {DRA_MANAGER}"
ADVICE = (
    "Make it idempotent: look first whether the claim's uid is prepared, and answer with all that was answered then,"
    " each device with its request and CDI ids."
)


async def check(driver: DriverPeer) -> None:
    """Prepare a claim of several devices three times."""
    async with driver.claim(driver.offered()[:SAMPLE]) as claim:
        first = contents(await driver.prepared(claim))
        for number in ("second", "third"):
            try:
                again = contents(await driver.prepared(claim))
            except Failed as error:
                raise Failed(f"the {number} time: {error}") from None
            if again != first:
                raise Failed(f"the {number} answer is {again}, the first was {first}")
