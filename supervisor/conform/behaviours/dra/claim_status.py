"""The allocation of a claim and its reservations stay as they are when it is prepared."""

from supervisor.conform.async_api import Object
from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.dra.objects import DriverClaim
from supervisor.conform.sources import RESOURCE_API, STATUS_KEP
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = (
    "Of the status of a claim, a driver may write the entries of its devices in status.devices; allocation and"
    " reservedFor are those of the scheduler and of controllers, who take devices away by them."
)
SOURCE = f"{RESOURCE_API}; {STATUS_KEP}"
ADVICE = "Apply or patch status.devices alone, instead of writing the whole status of a claim that was read before."
FIELDS = ("allocation", "reservedFor")


async def check(driver: DriverPeer) -> None:
    """Compare the status before with that after a claim was prepared, and unprepared."""
    async with driver.claim(driver.offered()[:1]) as claim:
        before = await _status(driver, claim)
        await driver.prepared(claim)
        _same(before, await _status(driver, claim), "prepared")
        await driver.unprepared(claim)
        _same(before, await _status(driver, claim), "unprepared")


async def _status(driver: DriverPeer, claim: DriverClaim) -> Object:
    found: Object = (await driver.objects.read(claim.name)).get("status") or {}
    return {name: found.get(name) for name in FIELDS}


def _same(before: Object, after: Object, when: str) -> None:
    if changed := [name for name in FIELDS if before[name] != after[name]]:
        raise Failed(
            f"status.{changed[0]} is {after[changed[0]]} once the claim is {when}, it was {before[changed[0]]}"
        )
