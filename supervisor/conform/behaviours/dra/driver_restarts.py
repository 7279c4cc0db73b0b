"""A driver that was ended and started again goes on with its claims."""

from supervisor.conform.dra.driver_peer import SAMPLE
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import DRA_API, DRA_MANAGER
from supervisor.conform.verdict import Failed

PHASE = "restarts"
RULE = (
    "Pods run on while their driver restarts: the kubelet does not prepare their claims again, and unprepares them"
    " later."
)
SOURCE = f"{DRA_API}; {DRA_MANAGER}"
ADVICE = "Retain what a claim needs in files, such as those of CDI, and leave the files of prepared claims at the end."


async def run(stage: DriverStage) -> None:
    """SIGTERM, start again, and look whether the claim is as before."""
    driver = (await stage.drivers())[0]
    async with driver.claim(driver.offered()[:SAMPLE]) as claim:
        ids = {id for device in await driver.prepared(claim) for id in device.cdi_device_ids}
        await stage.program.terminate(stage.timeout)
        if lost := await driver.undeclared(ids):
            raise Failed(f"{min(lost)} was removed at the end of the driver, while its claim is prepared")
        await stage.restart_program()
        again = await stage.served(driver.name, started=True)
        if lost := await driver.undeclared(ids):
            raise Failed(f"{min(lost)} was removed at the start of the driver, while its claim is prepared")
        if ids != (now := {id for device in await again.prepared(claim) for id in device.cdi_device_ids}):
            raise Failed(f"after the restart of the driver the claim has the CDI ids {sorted(now)}, not {sorted(ids)}")
        if lost := await again.undeclared(ids):
            raise Failed(await again.why_undeclared(min(lost), "after the next instance has prepared the claim,"))
        await again.unprepared(claim)
