"""Our scheduler finds a place for a pod where the oracle does, over random worlds, and nowhere else."""

import asyncio

from protocols.kube.meta import meta
from tests.support.memory_api import MemoryApi
from tests.support.scheduler_life import Life, node_of, says, until
from tests.support.scheduling_worlds import feasible, objects, world

WORLDS = 150


async def test_scheduler_agrees_with_the_oracle() -> None:
    api = MemoryApi()
    worlds = [world(number) for number in range(WORLDS)]
    for each in worlds:
        for resource, obj in objects(each):
            api.put(
                resource, {**obj, "metadata": {**meta(obj), **({"namespace": "ns"} if resource.namespaced else {})}}
            )
    async with asyncio.timeout(120), Life(api):
        await until("all are decided", lambda: all(node_of(api, each.name) or says(api, each.name) for each in worlds))
    found = {each.number for each in worlds if node_of(api, each.name)}
    expected = {each.number for each in worlds if feasible(each)}
    assert found == expected
    assert WORLDS / 5 < len(expected) < WORLDS * 4 / 5, "worlds are neither all easy nor all hopeless"
