"""The driver is registered by a new kubelet, which prepares its claims again."""

from supervisor.conform.dra.driver_peer import contents
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import DRA_MANAGER, PLUGIN_WATCHER
from supervisor.conform.verdict import Failed

PHASE, ORDER = "restarts", 0
RULE = (
    "A starting kubelet finds the sockets in plugins_registry/ and asks each for GetInfo; claims that were prepared"
    " before are prepared again, with the same answer."
)
SOURCE = f"{PLUGIN_WATCHER}; {DRA_MANAGER}"
ADVICE = "Keep serving the registration socket after the first GetInfo, and do not count registrations."


async def run(stage: DriverStage) -> None:
    """Prepare a claim, restart the kubelet twice, and prepare it again."""
    driver = (await stage.drivers())[0]
    async with driver.claim(driver.offered()[:1]) as claim:
        first = contents(await driver.prepared(claim))
        for _ in range(2):
            await stage.restart_kubelet()
            again = await stage.served(driver.name, started=False)
            if (now := contents(await again.prepared(claim))) != first:
                raise Failed(f"after the restart of the kubelet the claim has {now}, before {first}")
        await again.unprepared(claim)
