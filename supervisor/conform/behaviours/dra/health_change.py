"""A device that breaks, and one that recovers, are reported."""

from collections.abc import Callable, Sequence

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import HEALTH_API, HEALTH_KEP
from supervisor.conform.verdict import Failed, NotApplicable

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
    await _after(stage, stage.break_with, "one more UNHEALTHY device", lambda: bool(broken(drivers) - before))
    if stage.mend_with:
        await _after(stage, stage.mend_with, "no such device", lambda: broken(drivers) <= before)


async def _after(stage: DriverStage, script: str, what: str, holds: Callable[[], bool]) -> None:
    await stage.shell(script)
    if not await stage.until(holds, stage.timeout):
        raise Failed(f"no report with {what} came within {stage.timeout:g} s after {script!r}")


def broken(drivers: Sequence[DriverPeer]) -> set[tuple[str, str, str]]:
    """Return driver, pool and name of the devices that the newest reports call UNHEALTHY."""
    return {
        (driver.name, each.device.pool_name, each.device.device_name)
        for driver in drivers
        if driver.health and driver.health.newest
        for each in driver.health.newest.devices
        if each.health == UNHEALTHY
    }
