"""Devices have the same pools and names after a restart."""

from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.dra.objects import SLICES as PATH
from supervisor.conform.dra.pools import names_of
from supervisor.conform.sources import DRA_KEP, RESOURCE_API
from supervisor.conform.verdict import Failed

PHASE = "end"
RULE = "Allocated claims name their devices by driver, pool and name; with another name a device is not found."
SOURCE = f"{RESOURCE_API}; {DRA_KEP}"
ADVICE = "Derive names from the hardware, not from a counter, a random number or the order of discovery."


async def run(stage: DriverStage) -> None:
    """SIGTERM, delete the slices as a kubelet does after 30 s, start again, and compare."""
    drivers = await stage.drivers()
    before = {driver.name: names_of(driver.pools) for driver in drivers}
    await stage.program.terminate(stage.timeout)
    for each in (each for driver in drivers for pool in driver.pools for each in pool.slices):
        await stage.objects.delete(f"{PATH}/{each['metadata']['name']}")
    await stage.restart_program()
    for driver in await stage.serve_started():
        if gone := before[driver.name] - names_of(driver.pools):
            now = ", ".join(name for _, name in sorted(names_of(driver.pools))[:3])
            raise Failed(f"{'/'.join(min(gone))} was published at first, and {now} after a restart")
