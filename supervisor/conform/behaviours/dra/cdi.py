"""The CDI devices of prepared claims."""

import asyncio

from supervisor.conform.cdi import QUALIFIED, check_declared, faults_in, files_of
from supervisor.conform.dra.driver_peer import SAMPLE, DriverPeer
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.scripts import check, run, several
from supervisor.conform.sources import CDI, CDI_VALID, CDI_VALID_ADVICE, CDI_VALID_RULE, DRA_API, DRA_MANAGER
from supervisor.conform.verdict import Failed, NotApplicable


@check(
    "CDI devices of the answer exist when the answer comes.",
    phase="calls",
    rule="The runtime reads the CDI file of a device when it makes the container, soon after the answer.",
    source=CDI,
    advice="Write the file into CDI_ROOT or /var/run/cdi under a temporary name, rename it to NAME.json, and answer"
    " only then.",
)
async def cdi_files(driver: DriverPeer) -> None:
    """Look the ids up in the files of all directories that a runtime reads."""
    async with driver.claim(driver.offered()[:SAMPLE]) as claim:
        ids = {id for device in await driver.prepared(claim) for id in device.cdi_device_ids}
        if not ids:
            raise NotApplicable("the answer has no CDI devices")
        await check_declared(ids, driver.cdi)


@check(
    "CDI device ids of the answer have qualified names.",
    phase="calls",
    rule="The id of a CDI device is VENDOR/CLASS=NAME, as its specification file declares it.",
    source=f"{DRA_API}; {CDI}",
    advice="Send the qualified name, such as vendor.example/gpu=0; the runtime starts no container with another one.",
)
async def cdi_ids(driver: DriverPeer) -> None:
    """Look at the answer for a claim of the first devices."""
    async with driver.claim(driver.offered()[:SAMPLE]) as claim:
        ids = [id for device in await driver.prepared(claim) for id in device.cdi_device_ids]
    if not ids:
        raise NotApplicable("the answer has no CDI devices")
    if faults := [f"{id!r} is not VENDOR/CLASS=NAME" for id in ids if not QUALIFIED.fullmatch(id)]:
        raise Failed(several(faults))


@check(
    "CDI files of a claim are such as a runtime takes.",
    phase="calls",
    rule=CDI_VALID_RULE,
    source=CDI_VALID,
    advice=CDI_VALID_ADVICE,
)
async def cdi_valid(driver: DriverPeer) -> None:
    """Read the files that declare the CDI devices of a claim."""
    async with driver.claim(driver.offered()[:SAMPLE]) as claim:
        ids = await driver.cdi_of(claim)
        files, faults = await asyncio.to_thread(faults_in, driver.cdi, ids)
    if not files:
        raise NotApplicable("no file declares the CDI devices")
    if faults:
        raise Failed(several(faults))


@check(
    "CDI devices of a claim stay while others are prepared and unprepared.",
    phase="calls",
    rule="A container that starts again needs the CDI devices of its claim, whatever other claims came and went.",
    source=f"{DRA_API}; {CDI}",
    advice="Write a file for each claim, with the uid in its name, or all prepared claims into the one file.",
)
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


@check(
    "CDI devices that were made for a claim are removed with it.",
    phase="calls",
    rule="NodeUnprepareResources undoes what NodePrepareResources did; files of dead claims slow each start down.",
    source=f"{DRA_API}; {CDI}",
    advice="Name the file after the uid of the claim, and delete it when the claim is unprepared.",
)
async def cdi_removed(driver: DriverPeer) -> None:
    """Unprepare, and look the ids up."""
    async with driver.claim(driver.offered()[:1]) as claim:
        ids = {id for device in await driver.prepared(claim) for id in device.cdi_device_ids}
        if not (mine := {id for id in ids if claim.uid in id}):
            raise NotApplicable("no CDI id has the uid of its claim: the devices are the same for all")
        await driver.unprepared(claim)
        left = mine & await asyncio.to_thread(driver.declared)
    if left:
        raise Failed(f"{min(left)} is still declared after its claim was unprepared")


@run(
    "CDI devices of a claim are declared again after a reboot.",
    phase="restarts",
    rule="/var/run is empty after a reboot, the state of kubelet and drivers is not; pods of the node start again, and"
    " their claims are prepared again.",
    source=f"{DRA_API}; {DRA_MANAGER}; {CDI}; kubernetes/kubernetes issue 141433",
    advice="Write the CDI file of a claim at each NodePrepareResources, also when the claim is known to be prepared.",
)
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
