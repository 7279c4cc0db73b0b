"""Reports are repeated before the health of a device counts as unknown, and the stream stays open."""

import time

from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import HEALTH_API, HEALTH_KEP
from supervisor.conform.verdict import Failed, NotApplicable

PHASE, ORDER = "health", 200
RULE = (
    "A device that was not reported for health_check_timeout_seconds (30 if that is 0) is Unknown: reports are repeated"
    " within that time although nothing changes, on a stream that stays open."
)
SOURCE = f"{HEALTH_API}; {HEALTH_KEP}"
ADVICE = "Repeat the whole list every third of the timeout, and return from the call only when it is cancelled."
DEFAULT_S, MOST_S, LEAST_S = 30, 40.0, 0.1


async def run(stage: DriverStage) -> None:
    """Wait for the next report on the stream that was opened at the registration."""
    for driver in await stage.drivers():
        if driver.health is None:
            raise NotApplicable("GetInfo names no health service")
        stage.show(driver.health.first)
        reported = await driver.first_health(driver.health)
        seconds = min((each.health_check_timeout_seconds or DEFAULT_S for each in reported), default=DEFAULT_S)
        if seconds > MOST_S:
            raise NotApplicable(f"the timeout is {seconds:g} s, too long to wait for")
        stream, last = driver.health, driver.health.times[-1]
        left = seconds + stage.timeout / 4 - (time.monotonic() - last)
        came = await stream.further(max(LEAST_S, left))
        if stream.ended:
            raise Failed(f"NodeWatchResources ended: {stream.ended}")
        if not came:
            raise Failed(f"no report came within {seconds:g} s after the last: all devices are Unknown")
