"""A device that breaks, and one that recovers, are reported."""

from collections.abc import Callable, Sequence
from typing import Any

from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import HEALTH_API, HEALTH_KEP
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "health"
RULE = "Whenever the health of a device changes, NodeWatchResources sends the list of all devices."
SOURCE = f"{HEALTH_API}; {HEALTH_KEP}"
ADVICE = "Wake the stream at each change in both directions; UNHEALTHY is 2 and HEALTHY is 1."
UNHEALTHY = 2


async def run(stage: DriverStage) -> None:
    """Let the user break and mend devices."""
    if not stage.break_with:
        raise NotApplicable("it needs --break and --mend, commands that break and mend a device")
    streams = [driver.health for driver in await stage.drivers() if driver.health]
    if not streams:
        raise NotApplicable("GetInfo names no health service")
    await _after(stage, stage.break_with, "an UNHEALTHY device", lambda: broken(streams))
    if stage.mend_with:
        await _after(stage, stage.mend_with, "no UNHEALTHY device", lambda: not broken(streams))


async def _after(stage: DriverStage, script: str, what: str, holds: Callable[[], bool]) -> None:
    await stage.shell(script)
    if not await stage.until(holds, stage.timeout):
        raise Failed(f"no report with {what} came within {stage.timeout:g} s after {script!r}")


def broken(streams: Sequence[Any]) -> bool:
    return any(device.health == UNHEALTHY for each in streams if each.newest for device in each.newest.devices)
