"""CDI devices of a claim stay while others are prepared and unprepared."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.sources import CDI, DRA_API
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "A container that starts again needs the CDI devices of its claim, whatever other claims came and went."
SOURCE = f"{DRA_API}; {CDI}"
ADVICE = "Write a file for each claim, with the uid in its name, or all prepared claims into the one file."


async def check(driver: DriverPeer) -> None:
    """Prepare two claims, and unprepare one."""
    first, second = driver.offered(2)[:2]
    async with driver.claim([first]) as one, driver.claim([second]) as other:
        ids = await driver.cdi_of(one)
        await driver.prepared(other)
        if lost := await driver.undeclared(ids):
            raise Failed(f"{min(lost)} is gone since another claim was prepared")
        await driver.unprepared(other)
        if lost := await driver.undeclared(ids):
            raise Failed(f"{min(lost)} is gone since another claim was unprepared")
