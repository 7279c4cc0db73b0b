"""A claim of a device that the driver does not have is not prepared."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.sources import DRA_API, RESOURCE_API
from supervisor.conform.verdict import CallFailed, Failed

PHASE = "calls"
RULE = (
    "Driver, pool and name are the device: one of another pool, or one that is gone, is not prepared; a success starts"
    " the container without it."
)
SOURCE = f"{DRA_API}; {RESOURCE_API}"
ADVICE = "Compare pool and device of each result with what you publish, and answer with an error of that claim."
UNKNOWN = "nodeplane-no-such"


async def check(driver: DriverPeer) -> None:
    """Prepare a claim with another device, and one with another pool."""
    offered = driver.offered()[0]
    for field in ("device", "pool"):
        claim = await driver.objects.create_claim([{**offered.result(), field: UNKNOWN}])
        try:
            answers = await driver.prepare(claim)
            if claim.uid not in answers or not answers[claim.uid].error:
                raise Failed(f"a claim of the {field} {UNKNOWN}, which is in no slice, was prepared")
        except CallFailed as error:
            raise Failed(f"an error of one claim is no error of the call: {error}") from None
        finally:
            await driver.drop(claim)
