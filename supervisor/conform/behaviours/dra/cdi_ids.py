"""CDI device ids of the answer have qualified names."""

from supervisor.conform.cdi import QUALIFIED
from supervisor.conform.dra.driver_peer import SAMPLE, DriverPeer
from supervisor.conform.scripts import several
from supervisor.conform.sources import CDI, DRA_API
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = "The id of a CDI device is VENDOR/CLASS=NAME, as its specification file declares it."
SOURCE = f"{DRA_API}; {CDI}"
ADVICE = "Send the qualified name, such as vendor.example/gpu=0; the runtime starts no container with another one."


async def check(driver: DriverPeer) -> None:
    """Look at the answer for a claim of the first devices."""
    async with driver.claim(driver.offered()[:SAMPLE]) as claim:
        ids = [id for device in await driver.prepared(claim) for id in device.cdi_device_ids]
    if not ids:
        raise NotApplicable("the answer has no CDI devices")
    if faults := [f"{id!r} is not VENDOR/CLASS=NAME" for id in ids if not QUALIFIED.fullmatch(id)]:
        raise Failed(several(faults))
