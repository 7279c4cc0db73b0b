"""A claim is prepared and unprepared although no pod is in its reservedFor any more."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.sources import DRA_MANAGER, RESOURCE_API
from supervisor.conform.verdict import CallFailed, Failed

PHASE = "calls"
RULE = (
    "The kubelet looks for the pod in status.reservedFor before it prepares; the entry may go at any time after that."
    " The call does not name the pod; a claim may be answered with an error then, the call may not."
)
SOURCE = f"{DRA_MANAGER}; {RESOURCE_API}"
ADVICE = "Do not look for a pod in status.reservedFor, or take an empty list for an error of that claim alone."


async def check(driver: DriverPeer) -> None:
    """Prepare a claim that is reserved for nobody, and unprepare one whose pod is gone."""
    async with driver.claim(driver.offered()[:1], reserved=[]) as claim:
        try:
            answers = await driver.prepare(claim)
        except CallFailed as error:
            raise Failed(f"with a claim that is reserved for no pod, {error}") from None
        if claim.uid not in answers:
            raise Failed(f"NodePrepareResources has no answer for claim {claim.name}, which is reserved for no pod")
        await driver.unprepared(claim)
    async with driver.claim(driver.offered()[:1]) as claim:
        await driver.prepared(claim)
        await driver.objects.reserve(claim.name, [])
        try:
            await driver.unprepared(claim)
        except Failed as error:
            raise Failed(f"reserved for no pod any more, {error}") from None
