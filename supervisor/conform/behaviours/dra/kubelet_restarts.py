"""The driver is registered by a new kubelet, which prepares its claims again."""

from supervisor.conform.dra.driver_peer import contents
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import DRA_MANAGER, PLUGIN_WATCHER
from supervisor.conform.verdict import Failed

PHASE, ORDER = "restarts", 0
RULE = (
    "A starting kubelet finds the sockets in plugins_registry/ and asks each for GetInfo; pods run on, with the CDI"
    " devices of their claims, which are prepared again for the next sandbox only, with the same answer."
)
SOURCE = f"{PLUGIN_WATCHER}; {DRA_MANAGER}"
ADVICE = (
    "Keep serving the registration socket after the first GetInfo, do not count registrations, and leave what is"
    " prepared as it is when another comes."
)


async def run(stage: DriverStage) -> None:
    """Prepare a claim, restart the kubelet twice, and prepare it again."""
    driver = (await stage.drivers())[0]
    async with driver.claim(driver.offered()[:1]) as claim:
        devices = await driver.prepared(claim)
        first, ids = contents(devices), {id for device in devices for id in device.cdi_device_ids}
        for _ in range(2):
            await stage.restart_kubelet()
            again = await stage.served(driver.name, started=False)
            if lost := await again.undeclared(ids):
                raise Failed(f"{min(lost)} is gone since another kubelet registered the driver: its claim is prepared")
            if (now := contents(await again.prepared(claim))) != first:
                raise Failed(f"after the restart of the kubelet the claim has {now}, before {first}")
        await again.unprepared(claim)
