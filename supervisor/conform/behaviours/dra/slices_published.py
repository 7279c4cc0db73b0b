"""The driver publishes its devices in pools that are complete."""

from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.program_stage import NotServing
from supervisor.conform.sources import DRA_KEP, RESOURCE_API
from supervisor.conform.verdict import Failed

PHASE, ORDER = "slices", 0
RULE = (
    "Each ResourceSlice of a pool has the pool's newest generation, and resourceSliceCount is their number; the"
    " scheduler allocates nothing from a pool that is not complete."
)
SOURCE = f"{RESOURCE_API}; {DRA_KEP}"
ADVICE = (
    "Publish all slices of a pool with one generation and their number, and delete those that are left over; where none"
    " is there, look for an error of the API in what the driver printed: the name of a device is a DNS label, a slice"
    " has at most 128 devices, an attribute one value, a text at most 64 characters."
)


async def run(stage: DriverStage) -> None:
    """Wait for the pools of each driver."""
    try:
        drivers = await stage.drivers()
    except NotServing as error:
        if any(attempt.peer for attempt in stage.kubelet.attempts):
            raise Failed(error.why) from None
        raise
    for driver in drivers:
        if not any(pool.devices for pool in driver.pools):
            raise Failed(f"no slice of {driver.name} has a device")
