"""CDI devices of a claim are declared again after a reboot."""

import asyncio

from supervisor.conform.cdi import files_of
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import CDI, DRA_API, DRA_MANAGER
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "restarts"
RULE = (
    "/var/run is empty after a reboot, the state of kubelet and drivers is not; pods of the node start again, and their"
    " claims are prepared again."
)
SOURCE = f"{DRA_API}; {DRA_MANAGER}; {CDI}; kubernetes/kubernetes issue 141433"
ADVICE = "Write the CDI file of a claim at each NodePrepareResources, also when the claim is known to be prepared."


async def run(stage: DriverStage) -> None:
    """Prepare a claim, end the driver, delete the claim's CDI files, and prepare it again."""
    driver = (await stage.drivers())[0]
    async with driver.claim(driver.offered()[:1]) as claim:
        if not (mine := {id for id in await driver.cdi_of(claim) if claim.uid in id}):
            raise NotApplicable("no CDI id has the uid of its claim: the devices are the same for all")
        await stage.program.terminate(stage.timeout)
        own = driver.cdi[0]
        files = await asyncio.to_thread(files_of, own, mine)
        for path in files:
            path.unlink()
        again = await stage.again(driver)
        if not files:
            raise NotApplicable(f"no file in {own} declares the CDI devices")
        if missing := await again.undeclared(await again.cdi_of(claim)):
            raise Failed(f"after a reboot the claim was prepared again, and no file declares {min(missing)}")
        await again.unprepared(claim)
