"""Reports are repeated before the health of a device counts as unknown, and the stream stays open."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from supervisor.conform.dra.driver_peer import DriverPeer, Health, Key
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
DEFAULT_S, MOST_S = 30, 40.0


async def run(stage: DriverStage) -> None:
    """Open another stream, and wait for its reports after the first."""
    for driver in await stage.drivers():
        if driver.health is None:
            raise NotApplicable("GetInfo names no health service")
        another = driver.another()
        stream = another.watch()
        try:
            await _repeats(another, stream)
        finally:
            await stream.close()
            await another.close()
        if driver.health.ended:
            raise Failed(f"NodeWatchResources ended: {driver.health.ended}")


async def _repeats(driver: DriverPeer, stream: Health) -> None:
    """Wait until the devices with the shortest timeout are reported again. Raises Failed, NotApplicable."""
    times: Counter[Key] = Counter()
    timeouts: dict[Key, int] = {}

    def take(reply: Any) -> None:
        for each in reply.devices:
            key = (each.device.pool_name, each.device.device_name)
            times[key] += 1
            timeouts[key] = each.health_check_timeout_seconds or DEFAULT_S

    stream.listener = take
    await driver.first_health(stream)
    seconds = min(timeouts.values(), default=DEFAULT_S)
    if seconds > MOST_S:
        raise NotApplicable(f"the timeout is {seconds:g} s, too long to wait for")
    due = {key for key, timeout in timeouts.items() if timeout == seconds}
    await stream.until(lambda stream: bool(stream.ended) or missing(due, times) == set(), seconds + driver.timeout / 4)
    if stream.ended:
        raise Failed(f"NodeWatchResources ended: {stream.ended}")
    if (late := missing(due, times)) == due and due:
        raise Failed(f"no report came within {seconds:g} s after the last: all devices are Unknown")
    if late:
        raise Failed(f"{'/'.join(min(late))} was not reported again within {seconds:g} s: it is Unknown")


def missing(due: set[Key], times: Mapping[Key, int]) -> set[Key]:
    """Return the devices that were reported once."""
    return {key for key in due if times[key] < 2}
