"""A driver that was killed in the middle of NodePrepareResources prepares the claim after its restart."""

from supervisor.conform.caller import SENT_S, broken_off
from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.dra.objects import DriverClaim
from supervisor.conform.sources import DRA_API, DRA_MANAGER
from supervisor.conform.verdict import Failed

PHASE = "restarts"
RULE = "The kubelet repeats a call that broke off, with the next instance; files of the first may be half written."
SOURCE = f"{DRA_API}; {DRA_MANAGER}"
ADVICE = (
    "Write state by a temporary file and rename, leave no lock behind, and remove the file of your own socket before"
    " you bind it."
)


async def run(stage: DriverStage) -> None:
    """Kill during the call, early and late, start again, and prepare the same."""
    for sent in SENT_S:
        driver = (await stage.drivers())[0]
        async with driver.claim(driver.offered()[:1]) as claim:
            await broken_off(driver.prepare(claim), sent, stage.restart_program)
            await _prepares(await stage.served(driver.name, started=True), claim)


async def _prepares(driver: DriverPeer, claim: DriverClaim) -> None:
    try:
        ids = {id for device in await driver.prepared(claim) for id in device.cdi_device_ids}
    except Failed as error:
        raise Failed(f"after the restart: {error}") from None
    if missing := await driver.undeclared(ids):
        raise Failed(f"after the restart no file declares {min(missing)}")
    await driver.unprepared(claim)
