"""CDI devices of the answer exist when the answer comes."""

import asyncio

from supervisor.conform.cdi import declared
from supervisor.conform.dra.driver_peer import SAMPLE, DriverPeer
from supervisor.conform.scripts import several
from supervisor.conform.sources import CDI
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = "The runtime reads the CDI file of a device when it makes the container, soon after the answer."
SOURCE = CDI
ADVICE = (
    "Write the file into CDI_ROOT or /var/run/cdi under a temporary name, rename it to NAME.json, and answer only then."
)


async def check(driver: DriverPeer) -> None:
    """Look the ids up in the files of all directories that a runtime reads."""
    async with driver.claim(driver.offered()[:SAMPLE]) as claim:
        ids = {id for device in await driver.prepared(claim) for id in device.cdi_device_ids}
        if not ids:
            raise NotApplicable("the answer has no CDI devices")
        known = await asyncio.to_thread(declared, driver.cdi)
    if missing := [f"no file declares {id}" for id in sorted(ids - known.names)]:
        raise Failed(several([*known.faults, *missing]) + f", in {' or '.join(map(str, driver.cdi))}")
