"""How long after a container's end its ContainerDied is heard, in each mode, over the number of pods.

cri and pleg on the embedded runtime with so many hollow pods; forty containers end at random moments.
"""

import asyncio
import random
from statistics import median

import grpc.aio
import uvloop

from tests.bench.pleg_load import Load
from tests.support.pleg_node import PlegNode
from tests.support.runtime import OPTIONS, RuntimeProcess

DEATHS, FIRST_MS, LAST_MS = 40, 500, 4500
SIZES = (10, 110, 500)


def measure(mode: str) -> dict[int, tuple[float, float]]:
    """Number of pods -> median and worst, in milliseconds."""
    return uvloop.run(_measure(mode))


async def _measure(mode: str) -> dict[int, tuple[float, float]]:
    found: dict[int, tuple[float, float]] = {}
    async with RuntimeProcess() as runtime, grpc.aio.insecure_channel(f"unix:{runtime.socket}", options=OPTIONS) as to:
        load, made = Load(to), 0
        async with PlegNode(runtime.settings, pleg_mode=mode) as node:
            for size in SIZES:
                for number in range(made, size):
                    sandbox = await load.sandbox(number)
                    await asyncio.gather(*(load.container(sandbox, life="") for _ in range(2)))
                made = size
                await node.until(lambda size=size: len(node.statuses.items) == size, 60)  # type: ignore[misc]  # bound
                await node.until(lambda: node.state.mode == mode)
                found[size] = await _deaths(load, node, sandbox)
    return found


async def _deaths(load: Load, node: PlegNode, sandbox: str) -> tuple[float, float]:
    lives = [f"{random.randint(FIRST_MS, LAST_MS)}ms" for _ in range(DEATHS)]
    ids = [await load.container(sandbox, life) for life in lives]
    await node.until(lambda: all((id_, "ContainerDied") in node.heard.at for id_ in ids), 30)
    ages = []
    for status in node.statuses.items.values():
        ended = {item.id: item.finished_ns for item in status.containers if item.finished_ns}
        ages += [(node.heard.at[(id_, "ContainerDied")] - ended[id_]) / 1e6 for id_ in ids if id_ in ended]
    return median(ages), max(ages)
