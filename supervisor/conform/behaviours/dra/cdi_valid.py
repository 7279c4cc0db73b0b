"""CDI files of a claim are such as a runtime takes."""

import asyncio

from supervisor.conform.cdi import faults_in
from supervisor.conform.dra.driver_peer import SAMPLE, DriverPeer
from supervisor.conform.scripts import several
from supervisor.conform.sources import CDI_VALID, CDI_VALID_ADVICE, CDI_VALID_RULE
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE, SOURCE, ADVICE = CDI_VALID_RULE, CDI_VALID, CDI_VALID_ADVICE


async def check(driver: DriverPeer) -> None:
    """Read the files that declare the CDI devices of a claim."""
    async with driver.claim(driver.offered()[:SAMPLE]) as claim:
        ids = await driver.cdi_of(claim)
        files, faults = await asyncio.to_thread(faults_in, driver.cdi, ids)
    if not files:
        raise NotApplicable("no file declares the CDI devices")
    if faults:
        raise Failed(several(faults))
