"""NodeUnprepareResources answers for a claim, and the device can be given out again."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.sources import DRA_API, DRA_MANAGER
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "The answer has an entry for each uid, without an error; the pod is not gone before. The next claim follows."
SOURCE = f"{DRA_API}; {DRA_MANAGER}"
ADVICE = "Answer with an empty NodeUnprepareResourceResponse for each claim, once its devices are free."


async def check(driver: DriverPeer) -> None:
    """Prepare and unprepare a device in turns, for other claims and for the same."""
    offered = driver.offered()[:1]
    for number in ("first", "second"):
        async with driver.claim(offered) as claim:
            for turn in ("", ", prepared again"):
                try:
                    await driver.prepared(claim)
                    await driver.unprepared(claim)
                except Failed as error:
                    raise Failed(f"the {number} claim of {offered[0].name}{turn}: {error}") from None
                await driver.objects.pass_on(claim.name)
