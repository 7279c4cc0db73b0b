"""The ResourceSlices that a driver publishes."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from supervisor.conform.async_api import Object
from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.dra.objects import SLICES as PATH
from supervisor.conform.dra.objects import VERSION
from supervisor.conform.dra.pools import Pool, generation, names_of
from supervisor.conform.program import CommandLauncher, Program
from supervisor.conform.program_stage import HEAD_START, NotServing
from supervisor.conform.scripts import check, run, several
from supervisor.conform.verdict import Failed, NotApplicable


@run
async def slices_published(stage: DriverStage) -> None:
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


@check
async def device_names(driver: DriverPeer) -> None:
    """Count names over all slices of each pool."""
    counts = Counter((pool.name, device.name) for pool in driver.pools for device in pool.devices)
    if twice := [f"{pool}/{name} is there {count} times" for (pool, name), count in counts.items() if count > 1]:
        raise Failed(several(twice))


OTHERS = ("allNodes", "nodeSelector", "perDeviceNodeSelection")


@check
async def node_name(driver: DriverPeer) -> None:
    """Look at the newest slices."""
    for resource_slice in (published for pool in driver.pools for published in pool.slices):
        spec, name = resource_slice["spec"], resource_slice["metadata"]["name"]
        if not any(spec.get(other) for other in OTHERS) and spec.get("nodeName") != driver.objects.node:
            raise Failed(f"slice {name} has nodeName {spec.get('nodeName')!r}, the node is {driver.objects.node}")


AHEAD = 5


@run
async def slices_edited(stage: DriverStage) -> None:
    """Write a slice without its first device and with a higher generation, as an earlier version would have."""
    for driver in await stage.drivers():
        before = names_of(driver.pools)
        edited = next(
            (published for pool in driver.pools for published in pool.slices if published["spec"].get("devices")), None
        )
        if edited is None:
            raise NotApplicable("no slice has a device")
        spec, name = edited["spec"], edited["metadata"]["name"]
        newest = generation(edited) + AHEAD
        changed = {**spec, "devices": spec["devices"][1:], "pool": {**spec["pool"], "generation": newest}}
        await stage.objects.ask("PUT", f"{PATH}/{name}", {**edited, "spec": changed})
        await stage.complete(driver, before)
        if (now := next(p.generation for p in driver.pools if p.name == spec["pool"]["name"])) < newest:
            raise Failed(f"the pool has generation {now} again, readers have seen {newest}")


@run
async def slices_obsolete(stage: DriverStage) -> None:
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


WATCHED_S = 1.5


@run
async def slices_of_others(stage: DriverStage) -> None:
    """Write a slice as an instance on another node does, and see whether it stays."""
    for driver in await stage.drivers():
        if any(
            published["spec"].get("nodeName") != stage.objects.node
            for pool in driver.pools
            for published in pool.slices
        ):
            raise NotApplicable("the driver has slices that are not of this node: it may own all of them")
        node, name = f"{stage.objects.node}-other", f"conform-{uuid4().hex[:8]}"
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver.name, "nodeName": node, "pool": pool, "devices": [{"name": "theirs"}]}
        body = {"apiVersion": VERSION, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
        written = await stage.objects.ask("POST", PATH, body)
        try:
            await asyncio.sleep(WATCHED_S)
            slices = {obj["metadata"]["name"]: obj for obj in await stage.objects.slices(driver.name)}
        finally:
            await stage.objects.delete(f"{PATH}/{name}")
        if name not in slices:
            raise Failed(f"the slice of the driver's instance on node {node} was deleted")
        if slices[name]["spec"] != written["spec"]:
            raise Failed(f"the slice of the driver's instance on node {node} was changed")


@run
async def slices_restored(stage: DriverStage) -> None:
    """Delete one slice of each driver, then all."""
    for driver in await stage.drivers():
        before = names_of(driver.pools)
        slices = [published for pool in driver.pools for published in pool.slices]
        for some in (slices[:1], slices):
            for published in some:
                await stage.objects.delete(f"{PATH}/{published['metadata']['name']}")
            await stage.complete(driver, before)


@run
async def slices_stay(stage: DriverStage) -> None:
    """Compare versions of the objects."""
    for driver in await stage.drivers():
        before = await _versions(stage, driver.name)
        await asyncio.sleep(WATCHED_S)
        after = await _versions(stage, driver.name)
        if changed := sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)):
            raise Failed(f"slice {changed[0]} was written within {WATCHED_S:g} s, though nothing changed")


async def _versions(stage: DriverStage, driver: str) -> dict[str, str]:
    slices = await stage.objects.slices(driver)
    return {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in slices}


NODES = "/api/v1/nodes"
LEAST_S, POLL_S = 3.0, 0.2


@run
async def pools_apart(stage: DriverStage) -> None:
    """Start the program a second time, for another node."""
    node = stage.objects.node
    ours = {(driver.name, pool.name) for driver in await stage.drivers() for pool in driver.pools if _is_of(pool, node)}
    if not ours:
        raise NotApplicable("no pool is of this node alone")
    other = f"{node}-{uuid4().hex[:6]}"
    async with _instance_on(stage, other) as program:
        theirs = await _pools_of(stage, program, {name for name, _ in ours}, other)
    if both := ours & theirs:
        raise Failed(f"pool {min(both)[1]} of node {node} has the name of that of node {other}")
    if not theirs:
        raise NotApplicable("with another NODE_NAME the program publishes nothing of that node")


def _is_of(pool: Pool, node: str) -> bool:
    return all(published["spec"].get("nodeName") == node for published in pool.slices)


@asynccontextmanager
async def _instance_on(stage: DriverStage, node: str) -> AsyncIterator[Program]:
    """Run the program with a kubelet directory and a Node of its own; the stage begins anew afterwards."""
    if not isinstance(stage.launcher, CommandLauncher):
        raise NotApplicable("it needs a command that conform starts")
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
    await stage.objects.ask("POST", NODES, body)
    with TemporaryDirectory(dir="/tmp") as directory:  # paths of sockets are short
        for name in ("plugins", "plugins_registry"):
            (Path(directory) / name).mkdir()
        mine = {"NODE_NAME": node, "NODEPLANE_KUBELET_DIR": directory}
        program = stage.launcher._replace(environment={**stage.launcher.environment, **mine}).program()
        try:
            await program.start()
            yield program
        finally:
            await program.kill()
            stage.soil()
            await _remove(stage, node)


async def _slices_of(stage: DriverStage, drivers: set[str], node: str) -> list[Object]:
    slices = [obj for driver in drivers for obj in await stage.objects.slices(driver)]
    return [obj for obj in slices if obj["spec"].get("nodeName") == node]


async def _pools_of(stage: DriverStage, program: Program, drivers: set[str], node: str) -> set[tuple[str, str]]:
    """Wait for pools of the node, as long as the first instance took and more; return them by driver and name."""
    deadline = time.monotonic() + LEAST_S + HEAD_START * stage.started_in
    while True:
        slices = await _slices_of(stage, drivers, node)
        if slices or not program.runs or time.monotonic() > deadline:
            return {(obj["spec"]["driver"], obj["spec"]["pool"]["name"]) for obj in slices}
        await asyncio.sleep(POLL_S)


async def _remove(stage: DriverStage, node: str) -> None:
    for obj in await _slices_of(stage, stage.names, node):
        await stage.objects.delete(f"{PATH}/{obj['metadata']['name']}")
    await stage.objects.delete(f"{NODES}/{node}")
