"""A claim that was deleted and created anew is not prepared for the old uid."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.sources import DRA_API, DRA_HELPER
from supervisor.conform.verdict import CallFailed, Failed

PHASE = "calls"
RULE = "The uid is that of the claim that the pod was given; a claim of the same name may be another one."
SOURCE = f"{DRA_API}; {DRA_HELPER}"
ADVICE = "Compare metadata.uid of the claim that you read with the uid of the request, and answer with an error."
ANOTHER = "6d1d9c4e-0000-4000-8000-000000000002"


async def check(driver: DriverPeer) -> None:
    """Ask for the name with another uid."""
    async with driver.claim(driver.offered()[:1]) as claim:
        old = claim._replace(uid=ANOTHER)
        try:
            answers = await driver.prepare(old)
        except CallFailed as error:
            raise Failed(f"an error of one claim is no error of the call: {error}") from None
        if old.uid in answers and not answers[old.uid].error:
            await driver.unprepare(old)
            raise Failed(f"claim {old.name} was prepared for the uid {ANOTHER}, it has {claim.uid}")
