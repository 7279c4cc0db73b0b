"""A claim that cannot be prepared is an error of its own, and the others of the call are prepared."""

from supervisor.conform.dra.driver_peer import DriverPeer, answer_of
from supervisor.conform.dra.objects import NAMESPACE, DriverClaim
from supervisor.conform.sources import DRA_API, DRA_HELPER
from supervisor.conform.verdict import CallFailed, Failed

PHASE = "calls"
RULE = "The error of a claim is in its entry of the answer; an error of the call is for what concerns all of them."
SOURCE = f"{DRA_API}; {DRA_HELPER}"
ADVICE = "Put the text into NodePrepareResourceResponse.error of that uid, and go on with the next claim."
MISSING = DriverClaim(NAMESPACE, "6d1d9c4e-0000-4000-8000-000000000001", "nodeplane-no-such-claim")


async def check(driver: DriverPeer) -> None:
    """Prepare a claim that does not exist before one that does."""
    async with driver.claim(driver.offered()[:1]) as claim:
        try:
            answers = await driver.prepare(MISSING, claim)
        except CallFailed as error:
            raise Failed(f"with a claim that does not exist beside it, {error}") from None
        answer_of(claim, answers)
        if MISSING.uid not in answers or not answers[MISSING.uid].error:
            raise Failed("a claim that does not exist was answered without an error")
