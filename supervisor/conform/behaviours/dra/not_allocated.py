"""A claim without an allocation is not prepared."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.sources import DRA_HELPER, RESOURCE_API
from supervisor.conform.verdict import CallFailed, Failed

PHASE = "calls"
RULE = "status.allocation says which devices a claim has; without it, it has none: the pod that had it is dead."
SOURCE = f"{RESOURCE_API}; {DRA_HELPER}"
ADVICE = "Answer with an error for the claim without status.allocation; read the claim from the API, not a cache."


async def check(driver: DriverPeer) -> None:
    """Prepare a claim that was never allocated."""
    claim = await driver.objects.create_claim([])
    try:
        answers = await driver.prepare(claim)
        if claim.uid not in answers or not answers[claim.uid].error:
            raise Failed("a claim that is not allocated was answered without an error")
    except CallFailed as error:
        raise Failed(f"an error of one claim is no error of the call: {error}") from None
    finally:
        await driver.drop(claim)
