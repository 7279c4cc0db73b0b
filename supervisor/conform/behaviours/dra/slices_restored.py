"""Slices that were deleted are published again."""

from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.dra.objects import SLICES as PATH
from supervisor.conform.dra.pools import names_of
from supervisor.conform.sources import DRA_PLUGINS, SLICES

PHASE = "slices"
RULE = (
    "A starting kubelet deletes all slices of its node, and those of a driver that it could not reach for 30 s; the"
    " driver publishes them again as long as it runs."
)
SOURCE = f"{DRA_PLUGINS}; {SLICES}"
ADVICE = "Watch your ResourceSlices and reconcile them at each event, instead of publishing once at the start."


async def run(stage: DriverStage) -> None:
    """Delete one slice of each driver, then all."""
    for driver in await stage.drivers():
        before = names_of(driver.pools)
        slices = [each for pool in driver.pools for each in pool.slices]
        for some in (slices[:1], slices):
            for each in some:
                await stage.objects.delete(f"{PATH}/{each['metadata']['name']}")
            await stage.complete(driver, before)
