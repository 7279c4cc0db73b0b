"""Slices of an earlier instance are removed, with pools that no longer exist."""

from uuid import uuid4

from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.dra.objects import SLICES as PATH
from supervisor.conform.dra.objects import VERSION
from supervisor.conform.dra.pools import names_of
from supervisor.conform.sources import SLICES

PHASE = "slices"
RULE = "What a driver of the node has published and does not offer any more is deleted, or pods get what is not there."
SOURCE = SLICES
ADVICE = "List the slices with spec.driver and spec.nodeName of yours, at the start and by a watch; delete all others."


async def run(stage: DriverStage) -> None:
    """Write a slice of another pool, as an earlier version may have left."""
    for driver in await stage.drivers():
        before = names_of(driver.pools)
        name = f"conform-{uuid4().hex[:8]}"
        pool = {"name": "conform-obsolete", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver.name, "nodeName": stage.objects.node, "pool": pool, "devices": [{"name": "gone"}]}
        body = {"apiVersion": VERSION, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
        await stage.objects.ask("POST", PATH, body)
        try:
            await stage.complete(driver, before)
        finally:
            await stage.objects.delete(f"{PATH}/{name}")
