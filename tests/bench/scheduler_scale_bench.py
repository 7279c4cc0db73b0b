"""The scheduler with 1,000 nodes of 32 devices: how many pods with claims it binds, how soon a patch of one device is
followed by a binding, how much impossible claims disturb others, and what 64,000 devices weigh.

Nodes send no heartbeats and no controllers run: what is measured is the scheduler and the API it writes to.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from statistics import quantiles

import uvloop

from protocols.kinds.table import DEVICECLASSES, PODS, RESOURCESLICEPATCHES, RESOURCESLICES
from protocols.kube.meta import Object
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import Informer, InformerOptions
from tests.bench.plane_bench import proportional_mb
from tests.bench.row import Row
from tests.bench.scheduler_world import (
    DRIVER,
    Bindings,
    Written,
    cel,
    client_of,
    create_each,
    node_names,
    pod,
    pod_with,
    slice_of,
    slim,
    thing,
    world,
)
from tests.bench.watch_lab import cpu_seconds
from tests.support.apiserver_plane import Plane, running_plane

NODES_N, DEVICES_N = 1000, 32
BURST, LIMIT = 3000, 200.0
FLOW, FLOW_S, IMPOSSIBLE, RATIO_LIMIT = 50.0, 12.0, 10, 1.5
PATCHES, PATCH_FLOW, PATCH_LIMIT_S = 7, 100.0, 0.2
PATIENCE_S = 120.0
SHARES, SHARED = 2000, 100
SECOND, SHARING = "nic.example.com", "share.example.com"
FREE = f'device.attributes["{DRIVER}"].model == "A"'


def run() -> list[Row]:
    with running_plane() as plane:
        plane.spawn("scheduler")
        return uvloop.run(_measure(plane))


async def _measure(plane: Plane) -> list[Row]:
    client, seen = client_of(plane), Bindings()
    await client.start()
    watch = asyncio.create_task(Informer(client, PODS, InformerOptions(keep=slim), seen).run())
    try:
        lab = _Lab(plane, client, seen)
        return [row async for row in lab.rows()]
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await client.close()


class _Lab:
    def __init__(self, plane: Plane, client: ApiClient, seen: Bindings) -> None:
        self._plane, self._client, self._seen = plane, client, seen
        self._numbers = itertools.count()

    async def rows(self) -> AsyncIterator[Row]:
        await create_each(self._client, world(NODES_N, DEVICES_N, leases=False))
        before = cpu_seconds(self._plane.processes["scheduler"].pid)
        rate = await self._burst(BURST)
        cpu = (cpu_seconds(self._plane.processes["scheduler"].pid) - before) / BURST * 1e6
        name = f"pods with a claim each, {NODES_N} nodes x {DEVICES_N} devices, bound"
        yield Row(name, rate, "1/s", None, f">= {LIMIT:g} 1/s", rate >= LIMIT)
        yield Row("  CPU per pod, scheduler", cpu, "us")
        took = sorted([await self._patched(number) for number in range(PATCHES)])
        middle = took[len(took) // 2]
        name = f"patch of 1 of {NODES_N * DEVICES_N:,} devices to its binding, {PATCH_FLOW:g} pods/s"
        yield Row(name, middle, "s", None, f"<= {PATCH_LIMIT_S} s", middle <= PATCH_LIMIT_S)
        yield Row("  slowest of them", took[-1], "s")
        alone = await self._latency()
        await create_each(self._client, _hard_slices(node_names(1)[0]))
        await create_each(self._client, (pair for at in range(IMPOSSIBLE) for pair in _impossible(at)))
        beside = await self._latency()
        name = f"p99 of {FLOW:g} pods/s beside {IMPOSSIBLE} impossible claims, by p99 alone"
        ratio = beside / alone
        yield Row(name, ratio, "x", None, f"<= {RATIO_LIMIT} x", ratio <= RATIO_LIMIT)
        yield Row("  p99 alone", alone * 1e3, "ms")
        rate = await self._shares()
        yield Row(
            f"{SHARES:,} shares of {SHARED:,} devices, bound", rate, "1/s", None, f">= {LIMIT:g} 1/s", rate >= LIMIT
        )
        half = self._weight()
        slices = (
            thing(RESOURCESLICES, f"{node}-nic", slice_of(node, DEVICES_N, SECOND)) for node in node_names(NODES_N)
        )
        await create_each(self._client, ((RESOURCESLICES, obj) for obj in slices))
        await self._burst(100)
        yield Row(f"scheduler with {2 * NODES_N * DEVICES_N:,} devices, PSS", self._weight(), "MiB")
        yield Row("  with half of them", half, "MiB")

    def _weight(self) -> float:
        return proportional_mb(self._plane.processes["scheduler"].pid)

    async def _shares(self) -> float:
        selectors = [cel(f'device.driver == "{SHARING}"')]
        await create_each(self._client, [(DEVICECLASSES, thing(DEVICECLASSES, "shared", {"selectors": selectors}))])
        names = node_names(SHARED)
        await create_each(self._client, ((RESOURCESLICES, _shared_slice(name)) for name in names))
        exactly = {"deviceClassName": "shared", "capacity": {"requests": {"memory": "1Gi"}}}
        requests = {"requests": [{"name": "r", "exactly": exactly}]}
        return await self._burst(SHARES, lambda name: pod_with(name, requests))

    async def _burst(self, pods: int, made: Callable[[str], Written] = pod) -> float:
        self._seen.expect(pods)
        began = time.perf_counter()
        await create_each(self._client, (pair for _ in range(pods) for pair in made(self._name())))
        await asyncio.wait_for(self._seen.done.wait(), PATIENCE_S)
        return pods / (time.perf_counter() - began)

    def _name(self) -> str:
        return f"p{next(self._numbers)}"

    async def _patched(self, number: int) -> float:
        """Return the seconds from the creation of a patch to the binding of the pod that waited for it."""
        name, node = f"gold-{number}", node_names(NODES_N)[-1 - number]
        gold = f'device.attributes["example.com"].?gold.orValue(-1) == {number}'
        self._seen.expect(1 << 30)
        await create_each(self._client, pod(name, gold))
        async with self._flow(PATCH_FLOW):
            await asyncio.sleep(2.0)
            assert name not in self._seen.at
            devices = {
                "filter": {"driver": DRIVER, "pool": node, "device": f"gpu-{DEVICES_N - 1}"},
                "attributes": {"example.com/gold": {"int": number}},
            }
            began = time.perf_counter()
            await self._client.create(RESOURCESLICEPATCHES, thing(RESOURCESLICEPATCHES, name, {"devices": devices}))
            await self._bound({name: began})
        return self._seen.at[name] - began

    async def _bound(self, pods: dict[str, float]) -> None:
        end = time.monotonic() + PATIENCE_S
        while left := pods.keys() - self._seen.at.keys():
            assert time.monotonic() < end, f"{len(left)} pods are not bound after {PATIENCE_S:g} s: {min(left)} ..."
            await asyncio.sleep(0.01)

    async def _latency(self) -> float:
        """Return the 99th percentile of seconds from a pod's creation to its binding."""
        self._seen.expect(1 << 30)
        async with self._flow(FLOW) as created:
            await asyncio.sleep(FLOW_S)
        return quantiles((self._seen.at[name] - began for name, began in created.items()), n=100)[98]

    @asynccontextmanager
    async def _flow(self, rate: float) -> AsyncIterator[dict[str, float]]:
        """Create so many pods a second, each with its claim; gives the time of each pod's creation."""
        created: dict[str, float] = {}
        tasks: set[asyncio.Task[None]] = set()

        async def one(name: str) -> None:
            claim, made = pod(name)
            await self._client.create(claim[0], claim[1], "default")
            created[name] = time.perf_counter()
            await self._client.create(made[0], made[1], "default")

        async def flow() -> None:
            began = time.perf_counter()
            for number in itertools.count():
                await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
                task = asyncio.create_task(one(self._name()))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

        flowing = asyncio.create_task(flow())
        try:
            yield created
        finally:
            flowing.cancel()
            await asyncio.gather(flowing, *tasks, return_exceptions=True)
            await self._bound(created)


def _shared_slice(node: str) -> Object:
    capacity = {"memory": {"value": f"{SHARES // SHARED}Gi"}}
    devices = [{"name": "shared", "allowMultipleAllocations": True, "capacity": capacity}]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": SHARING, "nodeName": node, "pool": pool, "devices": devices}
    return thing(RESOURCESLICES, f"{node}-shared", spec)


def _impossible(number: int) -> Written:
    """Of two claims one wants eight devices of one group on any node, each of which has seven at most; for the other no
    two choices of devices leave the same counters, so that only its time ends the search."""
    if number % 2:
        of_one_group = {"requests": ["r"], "matchAttribute": f"{DRIVER}/group"}
        exactly = {"deviceClassName": "gpu", "count": 8, "selectors": [cel(FREE)]}
        devices: Object = {"requests": [{"name": "r", "exactly": exactly}], "constraints": [of_one_group]}
    else:
        hard = [cel(f'device.attributes["{DRIVER}"].?hard.orValue(false)')]
        exactly = {"deviceClassName": "gpu", "count": 12, "selectors": hard}
        devices = {"requests": [{"name": "r", "exactly": exactly}]}
    return pod_with(f"never-{number}", devices)


def _hard_slices(node: str) -> Written:
    common = {"driver": DRIVER, "nodeName": node, "pool": {"name": "hard", "generation": 1, "resourceSliceCount": 2}}
    counters = [{"name": "g", "counters": {"slots": {"value": str(12 * 2**50)}}}]
    yield RESOURCESLICES, thing(RESOURCESLICES, "hard-counters", {**common, "sharedCounters": counters})
    devices = [
        {
            "name": f"hard-{at}",
            "attributes": {"hard": {"bool": True}, "model": {"string": "H"}},
            "consumesCounters": [{"counterSet": "g", "counters": {"slots": {"value": str(2**50 + 2**at)}}}],
        }
        for at in range(40)
    ]
    yield RESOURCESLICES, thing(RESOURCESLICES, "hard-devices", {**common, "devices": devices})
