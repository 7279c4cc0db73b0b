"""CDI devices that were made for a claim are removed with it."""

import asyncio

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.sources import CDI, DRA_API
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = "NodeUnprepareResources undoes what NodePrepareResources did; files of dead claims slow each start down."
SOURCE = f"{DRA_API}; {CDI}"
ADVICE = "Name the file after the uid of the claim, and delete it when the claim is unprepared."


async def check(driver: DriverPeer) -> None:
    """Unprepare, and look the ids up."""
    async with driver.claim(driver.offered()[:1]) as claim:
        ids = {id for device in await driver.prepared(claim) for id in device.cdi_device_ids}
        if not (mine := {id for id in ids if claim.uid in id}):
            raise NotApplicable("no CDI id has the uid of its claim: the devices are the same for all")
        await driver.unprepared(claim)
        left = mine & await asyncio.to_thread(driver.declared)
    if left:
        raise Failed(f"{min(left)} is still declared after its claim was unprepared")
