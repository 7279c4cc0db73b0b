"""Slices stay as they are while nothing changes."""

import asyncio

from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import SLICES
from supervisor.conform.verdict import Failed

PHASE = "slices"
RULE = "Each write of a slice goes to the schedulers and all other clients; a new generation invalidates the others."
SOURCE = SLICES
ADVICE = "Compare the slices with those of the API, by an informer, and write what differs only."
WATCHED_S = 1.5


async def run(stage: DriverStage) -> None:
    """Compare versions of the objects."""
    for driver in await stage.drivers():
        before = await _versions(stage, driver.name)
        await asyncio.sleep(WATCHED_S)
        after = await _versions(stage, driver.name)
        if changed := sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)):
            raise Failed(f"slice {changed[0]} was written within {WATCHED_S:g} s, though nothing changed")


async def _versions(stage: DriverStage, driver: str) -> dict[str, str]:
    slices = await stage.objects.slices(driver)
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in slices}
