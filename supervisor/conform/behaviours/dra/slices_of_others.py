"""Slices of the driver on other nodes stay."""

import asyncio
from uuid import uuid4

from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.dra.objects import SLICES as PATH
from supervisor.conform.dra.objects import VERSION
from supervisor.conform.sources import RESOURCE_API, SLICES
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "slices"
RULE = "Each node's instance of a driver owns the slices with its nodeName; those of the others are the others'."
SOURCE = f"{SLICES}; {RESOURCE_API}"
ADVICE = "Select by spec.nodeName beside spec.driver when you list, watch and delete slices."
WATCHED_S = 1.5


async def run(stage: DriverStage) -> None:
    """Write a slice as an instance on another node does, and see whether it stays."""
    for driver in await stage.drivers():
        if any(each["spec"].get("nodeName") != stage.objects.node for pool in driver.pools for each in pool.slices):
            raise NotApplicable("the driver has slices that are not of this node: it may own all of them")
        node, name = f"{stage.objects.node}-other", f"conform-{uuid4().hex[:8]}"
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver.name, "nodeName": node, "pool": pool, "devices": [{"name": "theirs"}]}
        body = {"apiVersion": VERSION, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
        written = await stage.objects.ask("POST", PATH, body)
        try:
            await asyncio.sleep(WATCHED_S)
            found = {each["metadata"]["name"]: each for each in await stage.objects.slices(driver.name)}
        finally:
            await stage.objects.delete(f"{PATH}/{name}")
        if name not in found:
            raise Failed(f"the slice of the driver's instance on node {node} was deleted")
        if found[name]["spec"] != written["spec"]:
            raise Failed(f"the slice of the driver's instance on node {node} was changed")
