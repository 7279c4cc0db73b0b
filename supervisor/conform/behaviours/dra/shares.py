"""Claims that share a device are prepared apart."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.sources import DRA_API, SHARES_KEP
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = (
    "A device with allowMultipleAllocations is in several claims at once, each with a share_id, which the answer"
    " repeats; the end of one share leaves the others."
)
SOURCE = f"{DRA_API}; {SHARES_KEP}"
ADVICE = "Key what you hold by claim and share, and copy shareID of the result into share_id (of dra/v1)."


async def check(driver: DriverPeer) -> None:
    """Prepare two shares, unprepare one, and prepare the other again."""
    shared = [each for each in driver.offered() if each.device.get("allowMultipleAllocations")][:1]
    if not shared:
        raise NotApplicable("no device has allowMultipleAllocations")
    async with driver.claim(shared) as first, driver.claim(shared) as second:
        one, other = [(await driver.prepared(claim))[0] for claim in (first, second)]
        if driver.versions[0] == "v1.DRAPlugin" and (not one.share_id or one.share_id == other.share_id):
            raise Failed(f"the shares have the share_id {one.share_id!r} and {other.share_id!r}")
        if set(one.cdi_device_ids) & set(other.cdi_device_ids) and one.cdi_device_ids:
            raise Failed(f"both shares have the CDI id {one.cdi_device_ids[0]}")
        await driver.unprepared(first)
        if list((await driver.prepared(second))[0].cdi_device_ids) != list(other.cdi_device_ids):
            raise Failed("after the end of one share the other has other CDI ids")
