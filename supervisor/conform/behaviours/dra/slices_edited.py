"""Slices that somebody else changed are put right, with a higher generation."""

from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.dra.objects import SLICES as PATH
from supervisor.conform.dra.pools import generation, names_of
from supervisor.conform.sources import RESOURCE_API, SLICES
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "slices"
RULE = (
    "The generation of a pool rises at each change of its devices, also above one that an earlier instance has left:"
    " slices of a lower generation count as outdated."
)
SOURCE = f"{RESOURCE_API}; {SLICES}"
ADVICE = "Begin with the highest generation that the API has of the pool, and add one when a slice must change."
AHEAD = 5


async def run(stage: DriverStage) -> None:
    """Write a slice without its first device and with a higher generation, as an earlier version would have."""
    for driver in await stage.drivers():
        before = names_of(driver.pools)
        edited = next((each for pool in driver.pools for each in pool.slices if each["spec"].get("devices")), None)
        if edited is None:
            raise NotApplicable("no slice has a device")
        spec, name = edited["spec"], edited["metadata"]["name"]
        newest = generation(edited) + AHEAD
        changed = {**spec, "devices": spec["devices"][1:], "pool": {**spec["pool"], "generation": newest}}
        await stage.objects.ask("PUT", f"{PATH}/{name}", {**edited, "spec": changed})
        await stage.complete(driver, before)
        if (now := next(p.generation for p in driver.pools if p.name == spec["pool"]["name"])) < newest:
            raise Failed(f"the pool has generation {now} again, readers have seen {newest}")
