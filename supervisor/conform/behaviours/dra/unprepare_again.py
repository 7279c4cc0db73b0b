"""Unpreparing a claim twice, or one that was never prepared, is no error."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.dra.objects import NAMESPACE, DriverClaim
from supervisor.conform.sources import DRA_API, DRA_MANAGER
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "The kubelet repeats what it cannot know to have succeeded; a claim that the driver does not know is unprepared."
SOURCE = f"{DRA_API}; {DRA_MANAGER}"
ADVICE = "Treat what is not there as done; an error keeps the pod in Terminating, and is repeated for ever."
UNKNOWN = DriverClaim(NAMESPACE, "6d1d9c4e-0000-4000-8000-000000000003", "nodeplane-never-prepared")


async def check(driver: DriverPeer) -> None:
    """Repeat, and ask for one that never was."""
    async with driver.claim(driver.offered()[:1]) as claim:
        await driver.prepared(claim)
        for number in ("first", "second"):
            try:
                await driver.unprepared(claim)
            except Failed as error:
                raise Failed(f"the {number} time: {error}") from None
    await driver.unprepared(UNKNOWN)
