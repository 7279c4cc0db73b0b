"""Pods with a claim each, from their creation over the API to their binding: 100 nodes of 8 devices, filled and emptied
for at least twenty seconds. Emptying is not counted: the devices are all that limits how many pods there can be."""

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import uvloop

from protocols.kube.meta import name_of
from protocols.kube.resources import DEVICECLASSES, LEASES, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES, Resource
from protocols.kube.times import now_micro
from protocols.kubeclient.client import ApiClient, ApiError, ClientOptions, Object
from protocols.kubeclient.informer import Informer, InformerOptions
from tests.bench.row import Row
from tests.bench.watch_lab import cpu_seconds
from tests.support.apiserver_plane import Plane, running_plane

NODES_N, DEVICES_N = 100, 8
FULL = NODES_N * DEVICES_N
WRITERS, SECONDS, MOST_ROUNDS = 12, 20.0, 8
PATIENCE_S = 120.0
HEARTBEAT_S = 10.0
LIMIT = 100.0
PROCESSES = ("store", "watchcache", "apiserver-0", "scheduler", "controllers")
DRIVER = "gpu.example.com"


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
    cert, key = plane.settings.layout.client_cert("admin")
    options = ClientOptions(server=plane.url, ca=plane.settings.layout.ca_cert, cert=cert, key=key)
    client = ApiClient(options)
    await client.start()
    seen = _Seen()
    tasks = [asyncio.create_task(Informer(client, PODS, InformerOptions(keep=_slim), seen).run())]
    try:
        await _each(client, _world())
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
        for name in _nodes():
            await client.patch(LEASES, name, "kube-node-lease", {"spec": {"renewTime": now_micro()}})


async def _rounds(client: ApiClient, plane: Plane, seen: "_Seen") -> tuple[float, dict[str, float]]:
    took, pods = 0.0, 0
    spent = dict.fromkeys(PROCESSES, 0.0)
    for number in range(MOST_ROUNDS):
        before = {each: cpu_seconds(plane.processes[each].pid) for each in PROCESSES}
        seen.expect(FULL)
        began = time.perf_counter()
        await _each(client, (pair for at in range(FULL) for pair in _pod(f"r{number}-{at}")))
        await asyncio.wait_for(seen.done.wait(), PATIENCE_S)
        took += time.perf_counter() - began
        pods += FULL
        for each in PROCESSES:
            spent[each] += cpu_seconds(plane.processes[each].pid) - before[each]
        if took >= SECONDS:
            break
        await _empty(client, number)
    return pods / took, {each: seconds / pods * 1e6 for each, seconds in spent.items()}


async def _each(client: ApiClient, objects: Iterable[tuple[Resource, Object]]) -> None:
    left = iter(objects)

    async def write() -> None:
        for resource, obj in left:
            namespace = "kube-node-lease" if resource is LEASES else "default"
            await client.create(resource, obj, namespace if resource.namespaced else "")
            if resource is NODES:
                await client.update(resource, {**obj, "status": _status()}, "", "status")

    await asyncio.gather(*(write() for _ in range(WRITERS)))


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


class _Seen:
    """Counts bindings."""

    def __init__(self) -> None:
        self.done = asyncio.Event()
        self._left = 0
        self._bound: set[str] = set()

    def expect(self, count: int) -> None:
        self.done.clear()
        self._left = count
        self._bound.clear()

    def on_add(self, obj: Object) -> None:
        if obj["spec"].get("nodeName") and name_of(obj) not in self._bound:
            self._bound.add(name_of(obj))
            self._left -= 1
            if self._left == 0:
                self.done.set()

    def on_update(self, old: Object, new: Object) -> None:
        self.on_add(new)

    def on_delete(self, obj: Object) -> None:
        """Of the round before."""


def _slim(pod: Object) -> Object:
    return {"metadata": pod["metadata"], "spec": {"nodeName": (pod.get("spec") or {}).get("nodeName")}}


def _nodes() -> list[str]:
    return [f"n{at:03}" for at in range(NODES_N)]


def _world() -> Iterable[tuple[Resource, Object]]:
    yield DEVICECLASSES, _object(DEVICECLASSES, "gpu", {"selectors": [_cel(f'device.driver == "{DRIVER}"')]})
    for name in _nodes():
        yield NODES, {**_object(NODES, name, {}), "status": _status()}
        yield RESOURCESLICES, _object(RESOURCESLICES, f"{name}-gpu", _slice(name))
        lease = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now_micro()}
        yield LEASES, _object(LEASES, name, lease)


def _slice(node: str) -> Object:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [
        {"name": f"gpu-{at}", "attributes": {"model": {"string": "A"}, "index": {"int": at}}} for at in range(DEVICES_N)
    ]
    return {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}


def _status() -> Object:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True"}]
    return {"allocatable": amounts, "capacity": amounts, "conditions": conditions}


def _pod(name: str) -> Iterable[tuple[Resource, Object]]:
    selectors = [_cel(f'device.attributes["{DRIVER}"].model == "A"')]
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "selectors": selectors}}
    yield RESOURCECLAIMS, _object(RESOURCECLAIMS, name, {"devices": {"requests": [request]}})
    container = {"name": "main", "image": "busybox:1", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
    yield PODS, _object(PODS, name, spec)


def _cel(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}


def _object(resource: Resource, name: str, spec: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}
