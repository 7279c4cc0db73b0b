"""Instances of the driver on two nodes publish pools of two names."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from supervisor.conform.async_api import Object
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.dra.objects import SLICES as PATH
from supervisor.conform.dra.pools import Pool
from supervisor.conform.program import CommandLauncher, Program
from supervisor.conform.program_stage import HEAD_START
from supervisor.conform.sources import DRA_KEP, RESOURCE_API
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "restarts"
RULE = (
    "Driver, pool and name are one device of the cluster: slices of two nodes with one pool name are one pool, whose"
    " count and names of devices are wrong, and nothing is allocated from it."
)
SOURCE = f"{RESOURCE_API}; {DRA_KEP}"
ADVICE = "Name the pool of a node's devices after the node, or put the node's name into the pool's."
NODES = "/api/v1/nodes"
LEAST_S, POLL_S = 3.0, 0.2


async def run(stage: DriverStage) -> None:
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
    return all(each["spec"].get("nodeName") == node for each in pool.slices)


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
    found = [each for driver in drivers for each in await stage.objects.slices(driver)]
    return [each for each in found if each["spec"].get("nodeName") == node]


async def _pools_of(stage: DriverStage, program: Program, drivers: set[str], node: str) -> set[tuple[str, str]]:
    """Wait for pools of the node, as long as the first instance took and more; return them by driver and name."""
    deadline = time.monotonic() + LEAST_S + HEAD_START * stage.started_in
    while True:
        found = await _slices_of(stage, drivers, node)
        if found or not program.runs or time.monotonic() > deadline:
            return {(each["spec"]["driver"], each["spec"]["pool"]["name"]) for each in found}
        await asyncio.sleep(POLL_S)


async def _remove(stage: DriverStage, node: str) -> None:
    for each in await _slices_of(stage, stage.names, node):
        await stage.objects.delete(f"{PATH}/{each['metadata']['name']}")
    await stage.objects.delete(f"{NODES}/{node}")
