"""Unpreparing another claim of the same name leaves a claim as it is."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.sources import DRA_API
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "A claim is its uid: one that was deleted and created anew has the same name, and is another."
SOURCE = DRA_API
ADVICE = "Use the uid as the key of what you remember and of your files, not namespace and name."
ANOTHER = "6d1d9c4e-0000-4000-8000-000000000004"


async def check(driver: DriverPeer) -> None:
    """Unprepare the name with another uid, and look for the CDI devices."""
    async with driver.claim(driver.offered()[:1]) as claim:
        ids = await driver.cdi_of(claim)
        await driver.unprepared(claim._replace(uid=ANOTHER))
        if lost := await driver.undeclared(ids):
            raise Failed(f"{min(lost)} is gone since the name of its claim was unprepared with the uid {ANOTHER}")
