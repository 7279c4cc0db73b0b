"""NodeUnprepareResources."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.dra.objects import NAMESPACE, DriverClaim
from supervisor.conform.scripts import check, run
from supervisor.conform.verdict import Failed, NotApplicable


@check
async def unprepare(driver: DriverPeer) -> None:
    """Prepare and unprepare a device in turns, for other claims and for the same."""
    offered = driver.offered()[:1]
    for number in ("first", "second"):
        async with driver.claim(offered) as claim:
            for turn in ("", ", prepared again"):
                try:
                    await driver.prepared(claim)
                    await driver.unprepared(claim)
                except Failed as error:
                    raise Failed(f"the {number} claim of {offered[0].name}{turn}: {error}") from None
                await driver.objects.pass_on(claim.name)


UNKNOWN = DriverClaim(NAMESPACE, "6d1d9c4e-0000-4000-8000-000000000003", "nodeplane-never-prepared")


@check
async def unprepare_again(driver: DriverPeer) -> None:
    """Repeat, and ask for one that never was."""
    async with driver.claim(driver.offered()[:1]) as claim:
        await driver.prepared(claim)
        for number in ("first", "second"):
            try:
                await driver.unprepared(claim)
            except Failed as error:
                raise Failed(f"the {number} time: {error}") from None
    await driver.unprepared(UNKNOWN)


@check
async def unprepare_deleted(driver: DriverPeer) -> None:
    """Unprepare a claim without its allocation, then one that was deleted."""
    for what, take in (("without its allocation", driver.objects.deallocate), ("deleted", driver.objects.delete_claim)):
        async with driver.claim(driver.offered()[:1]) as claim:
            await driver.prepared(claim)
            await take(claim.name)
            try:
                await driver.unprepared(claim)
            except Failed as error:
                raise Failed(f"a claim that is {what}: {error}") from None


@run
async def unprepare_restarted(stage: DriverStage) -> None:
    """Prepare, start the driver anew, unprepare, and look for the CDI devices that were made for the claim."""
    driver = (await stage.drivers())[0]
    async with driver.claim(driver.offered()[:1]) as claim:
        if not (mine := {id for id in await driver.cdi_of(claim) if claim.uid in id}):
            raise NotApplicable("no CDI id has the uid of its claim: the devices are the same for all")
        again = await stage.again(driver)
        await again.unprepared(claim)
        if left := mine - await again.undeclared(mine):
            raise Failed(f"{min(left)} is still declared after a restart of the driver and NodeUnprepareResources")


ANOTHER = "6d1d9c4e-0000-4000-8000-000000000004"


@check
async def unprepare_uid(driver: DriverPeer) -> None:
    """Unprepare the name with another uid, and look for the CDI devices."""
    async with driver.claim(driver.offered()[:1]) as claim:
        ids = await driver.cdi_of(claim)
        await driver.unprepared(claim._replace(uid=ANOTHER))
        if lost := await driver.undeclared(ids):
            raise Failed(f"{min(lost)} is gone since the name of its claim was unprepared with the uid {ANOTHER}")
