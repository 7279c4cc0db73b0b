"""NodeWatchResources reports all devices at once, by pool and name."""

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.scripts import several
from supervisor.conform.sources import HEALTH_API, HEALTH_KEP
from supervisor.conform.verdict import Failed, NotApplicable

PHASE, ORDER = "health", 0
RULE = (
    "The stream begins with a report of every device of the driver, each once, under the pool and name of its slice;"
    " health is HEALTHY or UNHEALTHY, a message has at most 1,024 bytes."
)
SOURCE = f"{HEALTH_API}; {HEALTH_KEP}"
ADVICE = (
    "Send a NodeWatchResourcesResponse with all devices at the begin: one that is missing is Unknown; a timeout is 0 or"
    " more seconds."
)
LONGEST = 1024


async def check(driver: DriverPeer) -> None:
    """Compare the first report with the slices."""
    if driver.health is None:
        raise NotApplicable("GetInfo names no health service")
    reported = await driver.first_health(driver.health)
    names = [(each.device.pool_name, each.device.device_name) for each in reported]
    published = {(pool.name, device.name) for pool in driver.pools for device in pool.devices}
    faults = [f"{pool}/{name} is missing" for pool, name in sorted(published - set(names))]
    faults += [f"{pool}/{name} is in no slice" for pool, name in sorted(set(names) - published)]
    faults += [f"{pool}/{name} is there twice" for pool, name in set(names) if names.count((pool, name)) > 1]
    for each in reported:
        if each.health_check_timeout_seconds < 0:
            faults.append(f"{each.device.device_name} has the timeout {each.health_check_timeout_seconds}")
        if each.health not in (0, 1, 2):
            faults.append(f"{each.device.device_name} has the health {each.health}")
        if len(each.message.encode()) > LONGEST:
            faults.append(f"{each.device.device_name} has a message of {len(each.message.encode())} bytes")
    if faults:
        raise Failed(several(faults))
