"""A device that is in use is prepared for a claim with admin access, too."""

from collections.abc import Set

from supervisor.conform.async_api import Object
from supervisor.conform.dra.driver_peer import DriverPeer, key_of, keys
from supervisor.conform.dra.objects import REQUEST, Offered
from supervisor.conform.sources import ADMIN_KEP, RESOURCE_API
from supervisor.conform.verdict import Failed, NotApplicable

PHASE, ORDER = "calls", 110
RULE = (
    "A claim with adminAccess, such as for monitoring, ignores what other claims hold: its device may be prepared for"
    " another, which it and its end leave as it is, CDI devices included."
)
SOURCE = f"{RESOURCE_API}; {ADMIN_KEP}"
ADVICE = (
    "Leave results with adminAccess out of the check that a device is prepared for one claim only, and have the uid of"
    " the claim in the names of its CDI devices."
)


async def check(driver: DriverPeer) -> None:
    """Prepare a claim with admin access alone, and then beside one that holds the device."""
    offered = driver.offered()[0]
    try:
        await _prepare(driver, offered)
    except Failed as error:
        raise NotApplicable(f"the driver prepares no claim with admin access: {error}") from None
    async with driver.claim([offered]) as claim:
        ids = {id for device in await driver.prepared(claim) for id in device.cdi_device_ids}
        try:
            await _prepare(driver, offered, ids)
        except Failed as error:
            raise Failed(f"{offered.name} is in use, with admin access {error}") from None
        if lost := await driver.undeclared(ids):
            raise Failed(f"{min(lost)} is gone since a claim with admin access was unprepared")


async def _prepare(driver: DriverPeer, offered: Offered, others: Set[str] = frozenset()) -> None:
    """Prepare and unprepare a claim, beside CDI devices of others. Raises Failed."""
    claim = await driver.objects.create_claim([admin_result(offered)])
    try:
        if [key_of(each) for each in await driver.prepared(claim)] != keys([offered]):
            raise Failed("the answer has another device")
        if lost := await driver.undeclared(set(others)):
            raise Failed(await driver.why_undeclared(min(lost), "and with both prepared"))
        await driver.unprepared(claim)
    finally:
        await driver.drop(claim)


def admin_result(offered: Offered) -> Object:
    """Return what the scheduler writes; it consumes nothing of a shared device."""
    result = {"request": REQUEST, "driver": offered.driver, "pool": offered.pool, "device": offered.name}
    return {**result, "adminAccess": True}
