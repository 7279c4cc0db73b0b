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
from supervisor.conform.sources import DRA_KEP, DRA_PLUGINS, RESOURCE_API, SLICES
from supervisor.conform.verdict import Failed, NotApplicable


@run(
    "The driver publishes its devices in pools that are complete.",
    phase="slices",
    order=0,
    rule="Each ResourceSlice of a pool has the pool's newest generation, and resourceSliceCount is their number; the"
    " scheduler allocates nothing from a pool that is not complete.",
    source=f"{RESOURCE_API}; {DRA_KEP}",
    advice="Publish all slices of a pool with one generation and their number, and delete those that are left over;"
    " where none is there, look for an error of the API in what the driver printed: the name of a device is a DNS"
    " label, a slice has at most 128 devices, an attribute one value, a text at most 64 characters.",
)
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


@check(
    "Each device has a name of its own in its pool.",
    phase="slices",
    rule="A device is known by driver, pool and name; the API checks names within a slice, not among those of a pool.",
    source=RESOURCE_API,
    advice="Number devices over all slices of a pool, or name them by what the hardware is called.",
)
async def device_names(driver: DriverPeer) -> None:
    """Count names over all slices of each pool."""
    counts = Counter((pool.name, device.name) for pool in driver.pools for device in pool.devices)
    if twice := [f"{pool}/{name} is there {count} times" for (pool, name), count in counts.items() if count > 1]:
        raise Failed(several(twice))


OTHERS = ("allNodes", "nodeSelector", "perDeviceNodeSelection")


@check(
    "Slices of devices of the node name the node.",
    phase="slices",
    rule="nodeName is the name of the Node object: the kubelet deletes slices by it, a driver may write no others, and"
    " pods are scheduled by it. Devices that all nodes reach have allNodes or nodeSelector instead.",
    source=f"{RESOURCE_API}; {DRA_KEP}",
    advice="Take the name from the downward API (spec.nodeName) or NODE_NAME, not from the host's name.",
)
async def node_name(driver: DriverPeer) -> None:
    """Look at the newest slices."""
    for resource_slice in (published for pool in driver.pools for published in pool.slices):
        spec, name = resource_slice["spec"], resource_slice["metadata"]["name"]
        if not any(spec.get(other) for other in OTHERS) and spec.get("nodeName") != driver.objects.node:
            raise Failed(f"slice {name} has nodeName {spec.get('nodeName')!r}, the node is {driver.objects.node}")


AHEAD = 5


@run(
    "Slices that somebody else changed are put right, with a higher generation.",
    phase="slices",
    rule="The generation of a pool rises at each change of its devices, also above one that an earlier instance has"
    " left: slices of a lower generation count as outdated.",
    source=f"{RESOURCE_API}; {SLICES}",
    advice="Begin with the highest generation that the API has of the pool, and add one when a slice must change.",
)
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


@run(
    "Slices of an earlier instance are removed, with pools that no longer exist.",
    phase="slices",
    rule="What a driver of the node has published and does not offer any more is deleted, or pods get what is not"
    " there.",
    source=SLICES,
    advice="List the slices with spec.driver and spec.nodeName of yours, at the start and by a watch; delete all"
    " others.",
)
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


@run(
    "Slices of the driver on other nodes stay.",
    phase="slices",
    rule="Each node's instance of a driver owns the slices with its nodeName; those of the others are the others'.",
    source=f"{SLICES}; {RESOURCE_API}",
    advice="Select by spec.nodeName beside spec.driver when you list, watch and delete slices.",
)
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


@run(
    "Slices that were deleted are published again.",
    phase="slices",
    rule="A starting kubelet deletes all slices of its node, and those of a driver that it could not reach for 30 s;"
    " the driver publishes them again as long as it runs.",
    source=f"{DRA_PLUGINS}; {SLICES}",
    advice="Watch your ResourceSlices and reconcile them at each event, instead of publishing once at the start.",
)
async def slices_restored(stage: DriverStage) -> None:
    """Delete one slice of each driver, then all."""
    for driver in await stage.drivers():
        before = names_of(driver.pools)
        slices = [published for pool in driver.pools for published in pool.slices]
        for some in (slices[:1], slices):
            for published in some:
                await stage.objects.delete(f"{PATH}/{published['metadata']['name']}")
            await stage.complete(driver, before)


@run(
    "Slices stay as they are while nothing changes.",
    phase="slices",
    rule="Each write of a slice goes to the schedulers and all other clients; a new generation invalidates the others.",
    source=SLICES,
    advice="Compare the slices with those of the API, by an informer, and write what differs only.",
)
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


@run(
    "Instances of the driver on two nodes publish pools of two names.",
    phase="restarts",
    rule="Driver, pool and name are one device of the cluster: slices of two nodes with one pool name are one pool,"
    " whose count and names of devices are wrong, and nothing is allocated from it.",
    source=f"{RESOURCE_API}; {DRA_KEP}",
    advice="Name the pool of a node's devices after the node, or put the node's name into the pool's.",
)
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
