"""The scheduler as it is, in this process, over an API in memory; it can be killed at any point and begun anew."""

import asyncio
import functools
import logging
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any
from unittest import mock

from prometheus_client import CollectorRegistry

from actors.scheduler import actor
from actors.scheduler.model import queue
from protocols.kube.meta import Object, condition, meta
from protocols.kube.resources import DEVICECLASSES, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES, Resource
from protocols.process.layout import layout
from tests.support.memory_api import Events, MemoryApi
from tests.support.waiting import until_async

DRIVER = "d.example.com"


class Life:
    """One life of a scheduler. `async with Life(api) as life`; kill() is the end without a farewell."""

    def __init__(self, api: MemoryApi, gates: dict[str, bool] | None = None, binding_timeout: float = 600) -> None:
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
        with (
            mock.patch.object(actor, "ApiClient", return_value=api),
            mock.patch.object(actor, "EventRecorder", return_value=recorder),
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


until = functools.partial(until_async, every=0.002)


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


def put_class(api: MemoryApi, name: str = "gpu", *expressions: str) -> None:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    api.put(DEVICECLASSES, {"metadata": {"name": name, "generation": 1}, "spec": {"selectors": selectors}})


def put_claim(api: MemoryApi, name: str, *expressions: str, **exactly: Any) -> Object:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": selectors, **exactly}}
    spec = {"devices": {"requests": [request]}}
    return api.put(RESOURCECLAIMS, {"metadata": {"name": name, "namespace": "ns"}, "spec": spec})


def put_pod(api: MemoryApi, name: str, *claims: str, **spec: Any) -> Object:
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    body = {"containers": [{"name": "c"}], "resourceClaims": entries, **spec}
    return api.put(PODS, {"metadata": {"name": name, "namespace": "ns"}, "spec": body, "status": {}})


def the(api: MemoryApi, resource: Resource, name: str) -> Object:
    return api.objects[resource.plural].get(f"ns/{name}") or api.objects[resource.plural][name]


def node_of(api: MemoryApi, name: str) -> str:
    return str((the(api, PODS, name).get("spec") or {}).get("nodeName") or "")


def says(api: MemoryApi, name: str) -> str:
    return str((condition(the(api, PODS, name), "PodScheduled") or {}).get("message") or "")


def bound(api: MemoryApi) -> list[str]:
    return [meta(pod)["name"] for pod in api.objects["pods"].values() if pod["spec"].get("nodeName")]


def held(api: MemoryApi, claim: str) -> list[str]:
    """Devices of a claim, as pool/device."""
    allocation = (the(api, RESOURCECLAIMS, claim).get("status") or {}).get("allocation") or {}
    return [f"{each['pool']}/{each['device']}" for each in (allocation.get("devices") or {}).get("results") or ()]


def held_by_all(api: MemoryApi) -> list[str]:
    return [device for claim in api.objects["resourceclaims"].values() for device in held(api, meta(claim)["name"])]
