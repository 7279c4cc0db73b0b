"""The scheduler as it is, in this process, over an API in memory; it can be killed at any point and begun anew."""

import asyncio
import functools
import logging
import random
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any
from unittest import mock

from prometheus_client import CollectorRegistry

from actors.scheduler import actor
from actors.scheduler.model import queue
from protocols.dra.pods import consumer, deallocated, results_of
from protocols.kinds.table import DEVICECLASSES, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES, Resource
from protocols.kube.meta import Object, condition, meta, terminating
from protocols.kubeclient.events import EventRecorder
from protocols.process.layout import layout
from tests.support.memory_api import Events, Fault, MemoryApi, away, conflict
from tests.support.waiting import until_async

DRIVER = "d.example.com"
GPU = "example.com/gpu"
ATTACHED, FAILED = "example.com/attached", "example.com/failed"
"""Binding conditions of devices that are prepared late."""


class Life:
    """One life of a scheduler. `async with Life(api) as life`; kill() is the end without a farewell.

    Events are kept in `events`; with `writes_events` they go to the API.
    """

    def __init__(
        self, api: MemoryApi, gates: dict[str, bool] | None = None, binding_timeout: float = 600, *,
        writes_events: bool = False,
    ) -> None:  # fmt: skip
        self.api, self.tasks = api, set[asyncio.Task[Any]]()
        self.events = Events()
        self.broken: list[BaseException] = []
        self.registry = CollectorRegistry()
        self._hurry = mock.patch.object(queue, "INITIAL_BACKOFF_S", 0.05)
        settings = SimpleNamespace(
            api_url="https://x",
            leader_elect=False,
            scheduler_seed=2,
            device_binding_timeout_s=binding_timeout,
            gate=lambda name: (gates or {}).get(name, True),
        )
        context: Any = SimpleNamespace(
            layout=layout("/nowhere"),
            settings=settings,
            log=logging.getLogger("test"),
            registry=self.registry,
            spawn=self._spawn,
            ready=lambda: None,
            note=lambda text: None,
        )
        events = self.events
        recorder = SimpleNamespace(event=events.event, run=events.run)
        recorders: Any = EventRecorder if writes_events else lambda client, options: recorder
        with (
            mock.patch.object(actor, "ApiClient", return_value=api),
            mock.patch.object(actor, "EventRecorder", recorders),
        ):
            self.scheduler = actor.Scheduler(context)

    def _spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coro, name=name)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.broken.append(error)

    async def __aenter__(self) -> "Life":
        self._hurry.start()
        await self.scheduler.start()
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        await self.kill()
        self._hurry.stop()
        assert not self.broken, self.broken

    async def kill(self) -> None:
        while tasks := list(self.tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=0.2)


async def heard() -> None:
    """News of all that was done is taken in: by turns of the loop, since a busy machine may sleep through time."""
    for _ in range(20):
        await asyncio.sleep(0.003)


async def short_life(api: MemoryApi, turns: int) -> None:
    """Run a scheduler for so many turns of the loop, then kill it."""
    life = Life(api)
    await life.scheduler.start()
    for _ in range(turns):
        await asyncio.sleep(0)
    await life.kill()
    assert not life.broken, life.broken


def try_in_reverse(life: Life) -> None:
    """Let a scheduler try pods in the reverse order, so that it meets another one."""
    ready = life.scheduler._queue.ready
    life.scheduler._queue.ready = lambda now: ready(now)[::-1]  # type: ignore[method-assign]


def flaky(chance: random.Random) -> Fault:
    return lambda verb, resource, name: chance.choice([conflict, away])() if chance.random() < 0.08 else None


until = functools.partial(until_async, timeout=30.0, every=0.002)
"""It ends before the tests do, and so says what did not come about."""


# objects


def put_node(api: MemoryApi, name: str, labels: dict[str, str] | None = None, pods: int = 200) -> None:
    status = {"allocatable": {"pods": str(pods)}, "conditions": [{"type": "Ready", "status": "True"}]}
    api.put(NODES, {"metadata": {"name": name, "labels": labels or {}}, "status": status})


def put_slice(api: MemoryApi, node: str, *devices: Object, driver: str = DRIVER) -> None:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": list(devices)}
    api.put(RESOURCESLICES, {"metadata": {"name": f"{node}-{driver}"}, "spec": spec})


def devices(count: int) -> list[Object]:
    return [{"name": f"dev-{at}"} for at in range(count)]


def shared(name: str, amount: int = 10, **policy: Any) -> Object:
    """Return a device that allows multiple allocations, with a capacity `m`."""
    capacity = {"value": str(amount), **({"requestPolicy": policy} if policy else {})}
    return {"name": name, "allowMultipleAllocations": True, "capacity": {"m": capacity}}


def slow(name: str) -> Object:
    """Return a device that is prepared after its allocation."""
    return {"name": name, "bindingConditions": [ATTACHED], "bindingFailureConditions": [FAILED]}


def put_extended_class(api: MemoryApi) -> None:
    api.put(DEVICECLASSES, {"metadata": {"name": "gpu", "generation": 1}, "spec": {"extendedResourceName": GPU}})


def asking(count: int = 1) -> list[Object]:
    """Return the containers of a pod that requests the extended resource."""
    return [{"name": "main", "resources": {"limits": {GPU: str(count)}}}]


def put_class(api: MemoryApi, name: str = "gpu", *expressions: str) -> None:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    api.put(DEVICECLASSES, {"metadata": {"name": name, "generation": 1}, "spec": {"selectors": selectors}})


def put_claim(api: MemoryApi, name: str, *expressions: str, **exactly: Any) -> Object:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": selectors, **exactly}}
    spec = {"devices": {"requests": [request]}}
    return api.put(RESOURCECLAIMS, {"metadata": {"name": name, "namespace": "ns"}, "spec": spec})


def put_pod(api: MemoryApi, name: str, *claims: str, **spec: Any) -> Object:
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    body = {"containers": [{"name": "c"}], "resourceClaims": entries, **spec}
    return api.put(PODS, {"metadata": {"name": name, "namespace": "ns"}, "spec": body, "status": {}})


def running(api: MemoryApi, name: str, node: str, *claims: str, priority: int = 0, **more: Any) -> Object:
    """Put a pod that is bound; its claims are left to the caller."""
    labels = more.pop("labels", {})
    pod = put_pod(api, name, *claims, nodeName=node, priority=priority, **more)
    return api.put(PODS, {**pod, "metadata": {**meta(pod), "labels": labels}})


def allocate(api: MemoryApi, claim: str, node: str, device: str, *users: str, **more: Any) -> None:
    """Allocate a device to a claim, reserved for pods, as another scheduler does. `more` goes to the result."""
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": device, **more}
    reserved = [consumer(the(api, PODS, user)) for user in users]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    api.put(RESOURCECLAIMS, {**the(api, RESOURCECLAIMS, claim), "status": status})


def put_allocated(api: MemoryApi, name: str, node: str, device: int, *users: str) -> None:
    """Put a claim with one of the node's `devices`, reserved for pods."""
    put_claim(api, name)
    allocate(api, name, node, f"dev-{device}", *users)


def using(api: MemoryApi, name: str, node: str, device: int, priority: int = 0) -> None:
    """Put a pod that runs with a device, and its claim of the same name."""
    running(api, name, node, name, priority=priority)
    put_allocated(api, name, node, device, name)


def gone(api: MemoryApi, name: str) -> None:
    """End a terminating pod; the claim controller frees its claims."""
    uid = meta(the(api, PODS, name))["uid"]
    api.drop(PODS, name, "ns")
    freed(api, uid)


def freed(api: MemoryApi, uid: str) -> None:
    """Free the claims of a pod, as the claim controller does."""
    for claim in list(api.objects["resourceclaims"].values()):
        status = claim.get("status") or {}
        left = [each for each in status.get("reservedFor") or () if each["uid"] != uid]
        if left != (status.get("reservedFor") or []):
            api.put(
                RESOURCECLAIMS, {**claim, "status": {**status, "reservedFor": left}} if left else deallocated(claim)
            )


async def finish_deletions(api: MemoryApi) -> None:
    """Remove the finalizers of deleted claims that hold nothing, as the claim controller does."""
    while True:
        for claim in list(api.objects["resourceclaims"].values()):
            if terminating(claim) and not results_of(claim):
                api.drop(RESOURCECLAIMS, meta(claim)["name"], "ns")
        await asyncio.sleep(0.002)


def report(api: MemoryApi, claim: str, condition: str, status: str = "True") -> None:
    """Write a condition of all devices of a claim, as their driver does."""
    obj = the(api, RESOURCECLAIMS, claim)
    entry = {"type": condition, "status": status, "reason": "Because", "message": "it is so"}
    devices = [
        {**{key: result[key] for key in ("driver", "pool", "device")}, "conditions": [entry]}
        for result in obj["status"]["allocation"]["devices"]["results"]
    ]
    api.put(RESOURCECLAIMS, {**obj, "status": {**obj["status"], "devices": devices}})


# what the API shows


def the(api: MemoryApi, resource: Resource, name: str) -> Any:
    return api.objects[resource.plural].get(f"ns/{name}") or api.objects[resource.plural][name]


def node_of(api: MemoryApi, name: str) -> str:
    return str((the(api, PODS, name).get("spec") or {}).get("nodeName") or "")


def says(api: MemoryApi, name: str) -> str:
    return str((condition(the(api, PODS, name), "PodScheduled") or {}).get("message") or "")


def nominated(api: MemoryApi, name: str) -> str:
    return str((the(api, PODS, name).get("status") or {}).get("nominatedNodeName") or "")


def leaving(api: MemoryApi) -> list[str]:
    """Names of terminating pods."""
    return sorted(meta(pod)["name"] for pod in api.objects["pods"].values() if terminating(pod))


def events_of(life: Life, reason: str, pod: str = "") -> list[tuple[str, str, str]]:
    """Return the events of a reason, of one pod or of all objects."""
    return [each for each in life.events.told if each[1] == reason and pod in ("", each[0].removeprefix("ns/"))]


def bound(api: MemoryApi) -> list[str]:
    return [meta(pod)["name"] for pod in api.objects["pods"].values() if pod["spec"].get("nodeName")]


def held(api: MemoryApi, claim: str) -> list[str]:
    """Devices of a claim, as pool/device."""
    allocation = (the(api, RESOURCECLAIMS, claim).get("status") or {}).get("allocation") or {}
    return [f"{result['pool']}/{result['device']}" for result in (allocation.get("devices") or {}).get("results") or ()]


def held_by_all(api: MemoryApi) -> list[str]:
    return [device for claim in api.objects["resourceclaims"].values() for device in held(api, meta(claim)["name"])]
