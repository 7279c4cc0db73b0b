"""A claim that was prepared before a restart of the driver is unprepared."""

from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import DRA_API, DRA_MANAGER
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "restarts"
RULE = "The instance that unprepares a claim may be another one than prepared it; a success means that all is undone."
SOURCE = f"{DRA_API}; {DRA_MANAGER}"
ADVICE = "Find what belongs to a claim by its uid, such as in names of files, instead of in the memory of the process."


async def run(stage: DriverStage) -> None:
    """Prepare, start the driver anew, unprepare, and look for the CDI devices that were made for the claim."""
    driver = (await stage.drivers())[0]
    async with driver.claim(driver.offered()[:1]) as claim:
        if not (mine := {id for id in await driver.cdi_of(claim) if claim.uid in id}):
            raise NotApplicable("no CDI id has the uid of its claim: the devices are the same for all")
        again = await stage.again(driver)
        await again.unprepared(claim)
        if left := mine - await again.undeclared(mine):
            raise Failed(f"{min(left)} is still declared after a restart of the driver and NodeUnprepareResources")
