"""Each device has a name of its own in its pool."""

from collections import Counter

from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.scripts import several
from supervisor.conform.sources import RESOURCE_API
from supervisor.conform.verdict import Failed

PHASE = "slices"
RULE = "A device is known by driver, pool and name; the API checks names within a slice, not among those of a pool."
SOURCE = RESOURCE_API
ADVICE = "Number devices over all slices of a pool, or name them by what the hardware is called."


async def check(driver: DriverPeer) -> None:
    """Count names over all slices of each pool."""
    counts = Counter((pool.name, device.name) for pool in driver.pools for device in pool.devices)
    if twice := [f"{pool}/{name} is there {count} times" for (pool, name), count in counts.items() if count > 1]:
        raise Failed(several(twice))
