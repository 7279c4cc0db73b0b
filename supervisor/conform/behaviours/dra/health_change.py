"""A device that breaks, and one that recovers, are reported."""

from collections.abc import Sequence

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import HEALTH_API, HEALTH_KEP
from supervisor.conform.verdict import NotApplicable

PHASE = "health"
RULE = "Whenever the health of a device changes, NodeWatchResources sends the list of all devices."
SOURCE = f"{HEALTH_API}; {HEALTH_KEP}"
ADVICE = "Wake the stream at each change in both directions; UNHEALTHY is 2 and HEALTHY is 1."
UNHEALTHY = 2


async def run(stage: DriverStage) -> None:
    """Let the user break and mend devices; those that were broken before may stay so."""
    if not stage.break_with:
        raise NotApplicable("it needs --break and --mend, commands that break and mend a device")
    drivers = await stage.drivers()
    if not [await driver.first_health(driver.health) for driver in drivers if driver.health]:
        raise NotApplicable("GetInfo names no health service")
    before = broken(drivers)
    breaks, mends = (lambda: bool(broken(drivers) - before)), (lambda: broken(drivers) <= before)
    await stage.reported_after(stage.break_with, "report with one more UNHEALTHY device", breaks)
    if stage.mend_with:
        await stage.reported_after(stage.mend_with, "report in which it is not", mends)


def broken(drivers: Sequence[DriverPeer]) -> set[tuple[str, str, str]]:
    """Return driver, pool and name of the devices that the newest reports call UNHEALTHY."""
    return {
        (driver.name, each.device.pool_name, each.device.device_name)
        for driver in drivers
        if driver.health and driver.health.newest
        for each in driver.health.newest.devices
        if each.health == UNHEALTHY
    }
