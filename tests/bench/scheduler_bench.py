"""Pods with a claim each, from their creation over the API to their binding: 100 nodes of 8 devices, filled and emptied
for at least twenty seconds. Emptying is not counted: the devices are all that limits how many pods there can be."""

import asyncio
import time

import uvloop

from protocols.kinds.table import LEASES, PODS, RESOURCECLAIMS
from protocols.kube.times import now_micro
from protocols.kubeclient.client import ApiClient, ApiError
from protocols.kubeclient.informer import Informer, InformerOptions
from tests.bench.row import Row
from tests.bench.scheduler_world import WRITERS, Bindings, client_of, create_each, node_names, pod, slim, world
from tests.bench.watch_lab import cpu_seconds
from tests.support.apiserver_plane import Plane, running_plane

NODES_N, DEVICES_N = 100, 8
FULL = NODES_N * DEVICES_N
SECONDS, MOST_ROUNDS = 20.0, 8
PATIENCE_S = 120.0
HEARTBEAT_S = 10.0
LIMIT = 100.0
PROCESSES = ("store", "watchcache", "apiserver-0", "scheduler", "controllers")


def run() -> list[Row]:
    with running_plane() as plane:
        plane.spawn("controllers")
        plane.spawn("scheduler")
        rate, cpu = uvloop.run(_measure(plane))
    name = f"pods with a claim each, {NODES_N} nodes x {DEVICES_N} devices, bound"
    return [
        Row(name, rate, "1/s", None, f">= {LIMIT:g} 1/s", rate >= LIMIT),
        *(Row(f"  CPU per pod, {process}", each, "us") for process, each in cpu.items()),
    ]


async def _measure(plane: Plane) -> tuple[float, dict[str, float]]:
    client, seen = client_of(plane), Bindings()
    await client.start()
    tasks = [asyncio.create_task(Informer(client, PODS, InformerOptions(keep=slim), seen).run())]
    try:
        await create_each(client, world(NODES_N, DEVICES_N))
        tasks.append(asyncio.create_task(_heartbeats(client)))
        return await _rounds(client, plane, seen)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()


async def _heartbeats(client: ApiClient) -> None:
    """As every node's agent: without, nodes are lost after 50 s."""
    while True:
        await asyncio.sleep(HEARTBEAT_S)
        for name in node_names(NODES_N):
            await client.patch(LEASES, name, "kube-node-lease", {"spec": {"renewTime": now_micro()}})


async def _rounds(client: ApiClient, plane: Plane, seen: Bindings) -> tuple[float, dict[str, float]]:
    took, pods = 0.0, 0
    spent = dict.fromkeys(PROCESSES, 0.0)
    for number in range(MOST_ROUNDS):
        before = {process: cpu_seconds(plane.processes[process].pid) for process in PROCESSES}
        seen.expect(FULL)
        began = time.perf_counter()
        await create_each(client, (pair for at in range(FULL) for pair in pod(f"r{number}-{at}")))
        await asyncio.wait_for(seen.done.wait(), PATIENCE_S)
        took += time.perf_counter() - began
        pods += FULL
        for process in PROCESSES:
            spent[process] += cpu_seconds(plane.processes[process].pid) - before[process]
        if took >= SECONDS:
            break
        await _empty(client, number)
    return pods / took, {each: seconds / pods * 1e6 for each, seconds in spent.items()}


async def _empty(client: ApiClient, number: int) -> None:
    """All pods and claims of a round away, and their devices free again."""
    left = iter(f"r{number}-{at}" for at in range(FULL))

    async def delete() -> None:
        for name in left:
            await client.delete(PODS, name, "default", grace=0)
            await client.delete(RESOURCECLAIMS, name, "default")

    await asyncio.gather(*(delete() for _ in range(WRITERS)))
    end = time.monotonic() + PATIENCE_S
    while (await client.list(RESOURCECLAIMS, "default", query={"limit": "1"})).get("items"):
        if time.monotonic() > end:
            raise ApiError(504, {"message": "claims are not freed"})
        await asyncio.sleep(0.2)
