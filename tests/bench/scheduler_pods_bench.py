"""Pods with rules about other pods on 500 nodes, beside as many without: how fast they are bound, and their CPU.

Nodes send no heartbeats and no controllers run: what is measured is the scheduler and the API it writes to.
"""

import asyncio
import time
from typing import Any

import uvloop

from protocols.kinds.table import PODS
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import Informer, InformerOptions
from tests.bench.row import Row
from tests.bench.scheduler_world import Bindings, Written, client_of, create_each, slim, thing, world
from tests.bench.watch_lab import cpu_seconds
from tests.support.apiserver_plane import Plane, running_plane

NODES_N, PODS_N, GROUPS = 500, 2000, 5
LIMIT = 100.0
PATIENCE_S = 240.0


def run() -> list[Row]:
    with running_plane() as plane:
        plane.spawn("scheduler")
        return uvloop.run(_measure(plane))


async def _measure(plane: Plane) -> list[Row]:
    client, seen = client_of(plane), Bindings()
    await client.start()
    watch = asyncio.create_task(Informer(client, PODS, InformerOptions(keep=slim), seen).run())
    try:
        await create_each(client, world(NODES_N, 0, leases=False))
        plain, floor_cpu = await _bound(plane, client, seen, "plain", {})
        apart, cpu = await _bound(plane, client, seen, "apart", _apart())
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await client.close()
    name = f"{PODS_N:,} pods apart by anti-affinity, {NODES_N} nodes, bound"
    return [
        Row(name, apart, "1/s", plain, f">= {LIMIT:g} 1/s", apart >= LIMIT),
        Row("  CPU per pod, scheduler; floor: pods without rules", cpu, "us", floor_cpu),
    ]


def _apart() -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "matchLabelKeys": ["group"]}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


async def _bound(
    plane: Plane, client: ApiClient, seen: Bindings, prefix: str, rules: dict[str, Any]
) -> tuple[float, float]:
    """Return pods a second, and microseconds of the scheduler's CPU for each."""
    pid = plane.processes["scheduler"].pid
    before, began = cpu_seconds(pid), time.perf_counter()
    seen.expect(PODS_N)
    await create_each(client, _pods(prefix, rules))
    await asyncio.wait_for(seen.done.wait(), PATIENCE_S)
    return PODS_N / (time.perf_counter() - began), (cpu_seconds(pid) - before) / PODS_N * 1e6


def _pods(prefix: str, rules: dict[str, Any]) -> Written:
    for at in range(PODS_N):
        spec = {"containers": [{"name": "main", "image": "busybox:1"}], **rules}
        labels = {"group": f"{prefix}-{at % GROUPS}"}
        yield PODS, {**thing(PODS, "", spec), "metadata": {"name": f"{prefix}-{at}", "labels": labels}}
