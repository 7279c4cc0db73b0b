"""The health of devices, and how a driver reports it."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from supervisor.conform.busy import OPEN_S, check_idle
from supervisor.conform.dra.driver_peer import DriverPeer, Health, Key
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.scripts import check, run, several
from supervisor.conform.verdict import Failed, NotApplicable

LONGEST = 1024


@check
async def health_report(driver: DriverPeer) -> None:
    """Compare the first report with the slices."""
    if driver.health is None:
        raise NotApplicable("GetInfo names no health service")
    reported = await driver.first_health(driver.health)
    names = [(report.device.pool_name, report.device.device_name) for report in reported]
    published = {(pool.name, device.name) for pool in driver.pools for device in pool.devices}
    faults = [f"{pool}/{name} is missing" for pool, name in sorted(published - set(names))]
    faults += [f"{pool}/{name} is in no slice" for pool, name in sorted(set(names) - published)]
    faults += [f"{pool}/{name} is there twice" for pool, name in set(names) if names.count((pool, name)) > 1]
    for report in reported:
        if report.health_check_timeout_seconds < 0:
            faults.append(f"{report.device.device_name} has the timeout {report.health_check_timeout_seconds}")
        if report.health not in (0, 1, 2):
            faults.append(f"{report.device.device_name} has the health {report.health}")
        if len(report.message.encode()) > LONGEST:
            faults.append(f"{report.device.device_name} has a message of {len(report.message.encode())} bytes")
    if faults:
        raise Failed(several(faults))


UNHEALTHY = 2


@run
async def health_change(stage: DriverStage) -> None:
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
        await stage.reported_after(stage.mend_with, "report without that UNHEALTHY device", mends)


def broken(drivers: Sequence[DriverPeer]) -> set[tuple[str, str, str]]:
    """Return driver, pool and name of the devices that the newest reports call UNHEALTHY."""
    return {
        (driver.name, device.device.pool_name, device.device.device_name)
        for driver in drivers
        if driver.health and driver.health.newest
        for device in driver.health.newest.devices
        if device.health == UNHEALTHY
    }


DEFAULT_S, MOST_S = 30, 40.0


@run
async def health_keepalive(stage: DriverStage) -> None:
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
        for device in reply.devices:
            key = (device.device.pool_name, device.device.device_name)
            times[key] += 1
            timeouts[key] = device.health_check_timeout_seconds or DEFAULT_S

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


@check
async def health_versions(driver: DriverPeer) -> None:
    """Open a stream of each beside the first, twice."""
    if driver.health is None:
        raise NotApplicable("GetInfo names no health service")
    first = {report.device.device_name for report in await driver.first_health(driver.health)}
    for version in driver.health_versions * 2:
        another = driver.another()
        stream = another.watch(version)
        try:
            names = {report.device.device_name for report in await another.first_health(stream)}
        except Failed as error:
            raise Failed(f"{version}: {error}") from None
        finally:
            await stream.close()
            await another.close()
        if names != first:
            raise Failed(f"{version} reports {len(names)} devices, not the {len(first)} of the first stream")


@run
async def idle(stage: DriverStage) -> None:
    """Open health streams, hang up, and watch its threads."""
    for driver in await stage.drivers():
        another = driver.another()
        try:
            another.open_health()
            if another.health:
                await another.first_health(another.health)
                await asyncio.sleep(OPEN_S)
        except Failed as error:
            raise NotApplicable(f"it needs a health stream: {error}") from None
        finally:
            await another.close()
    await check_idle(stage.program, "while nothing happened")
