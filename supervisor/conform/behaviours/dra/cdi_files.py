"""CDI devices of the answer exist when the answer comes."""

from supervisor.conform.cdi import check_declared
from supervisor.conform.dra.driver_peer import SAMPLE, DriverPeer
from supervisor.conform.sources import CDI
from supervisor.conform.verdict import NotApplicable

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
        await check_declared(ids, driver.cdi)
