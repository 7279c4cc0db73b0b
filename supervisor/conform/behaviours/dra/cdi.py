"""The CDI devices of prepared claims."""

import asyncio

from supervisor.conform.cdi import QUALIFIED, check_declared, faults_in, files_of
from supervisor.conform.dra.driver_peer import SAMPLE, DriverPeer
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.scripts import check, run, several
from supervisor.conform.verdict import Failed, NotApplicable


@check
async def cdi_files(driver: DriverPeer) -> None:
    """Look the ids up in the files of all directories that a runtime reads."""
    async with driver.claim(driver.offered()[:SAMPLE]) as claim:
        await check_declared(await driver.cdi_of(claim), driver.cdi)


@check
async def cdi_ids(driver: DriverPeer) -> None:
    """Look at the answer for a claim of the first devices."""
    async with driver.claim(driver.offered()[:SAMPLE]) as claim:
        ids = await driver.cdi_of(claim)
    if faults := [f"{id!r} is not VENDOR/CLASS=NAME" for id in sorted(ids) if not QUALIFIED.fullmatch(id)]:
        raise Failed(several(faults))


@check
async def cdi_valid(driver: DriverPeer) -> None:
    """Read the files that declare the CDI devices of a claim."""
    async with driver.claim(driver.offered()[:SAMPLE]) as claim:
        ids = await driver.cdi_of(claim)
        files, faults = await asyncio.to_thread(faults_in, driver.cdi, ids)
    if not files:
        raise NotApplicable("no file declares the CDI devices")
    if faults:
        raise Failed(several(faults))


@check
async def cdi_apart(driver: DriverPeer) -> None:
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


@check
async def cdi_removed(driver: DriverPeer) -> None:
    """Unprepare, and look the ids up."""
    async with driver.claim(driver.offered()[:1]) as claim:
        if not (mine := {id for id in await driver.cdi_of(claim) if claim.uid in id}):
            raise NotApplicable("no CDI id has the uid of its claim: the devices are the same for all")
        await driver.unprepared(claim)
        left = mine & await asyncio.to_thread(driver.declared)
    if left:
        raise Failed(f"{min(left)} is still declared after its claim was unprepared")


@run
async def cdi_restored(stage: DriverStage) -> None:
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
