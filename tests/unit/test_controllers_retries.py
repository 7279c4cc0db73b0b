"""Retries of failed keys, and namespaces that end: how often they are tried."""

import asyncio
import logging
import time
from typing import Any, cast

import pytest

from actors.controllers.common import workqueue
from actors.controllers.common.workqueue import Key, Retries, WorkQueue
from actors.controllers.lifecycle.namespaces import NamespaceCaches, NamespaceController
from protocols.kube.errors import ApiAway
from protocols.kube.meta import Object
from protocols.kube.resources import PODS, Resource
from protocols.kubeclient.client import ApiClient

DELAY_S = 0.02


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workqueue, "BASE_DELAY_S", DELAY_S)
    monkeypatch.setattr(workqueue, "MAX_DELAY_S", DELAY_S)


async def test_key_that_fails_twice_is_enqueued_once() -> None:
    enqueued: list[str] = []
    retries = Retries[str](enqueued.append)
    for key in ("a", "b", "a"):
        retries.failed(key)
    await asyncio.sleep(3 * DELAY_S)
    assert enqueued == ["a", "b"]
    retries.failed("a")
    await asyncio.sleep(3 * DELAY_S)
    assert enqueued == ["a", "b", "a"]


async def test_work_queue_key_changed_while_it_fails_keeps_one_retry() -> None:
    passes: list[Key] = []

    async def step(key: Key) -> None:
        passes.append(key)
        raise ApiAway("down")

    queue, began = WorkQueue(step, logging.getLogger("test")), time.monotonic()
    task = asyncio.create_task(queue.run())
    for _ in range(10):
        queue.put(("pod", "a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    changed = len(passes)
    await asyncio.sleep(5.5 * DELAY_S)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert changed > 3
    assert 1 <= len(passes) - changed <= (time.monotonic() - began) / DELAY_S


class HeldPod:
    """An API with a namespace whose only pod stays until `gone`; each status report is an update of the namespace."""

    def __init__(self, namespace: Object) -> None:
        self.caches = NamespaceCaches(namespaces={"a": namespace})
        self.controller = NamespaceController(
            cast(ApiClient, self), "CA", logging.getLogger("test"), cast(Any, self.caches)
        )
        self.gone = False
        self.passes = 0
        self.finalized = asyncio.Event()

    async def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        return obj

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> Object:
        await asyncio.sleep(0)
        held = resource is PODS and not self.gone
        return {
            "items": [{"metadata": {"name": f"pod-{self.passes}", "finalizers": [f"f{self.passes}"]}}] if held else []
        }

    async def delete_collection(self, resource: Resource, namespace: str = "", policy: str = "") -> None:
        self.passes += 1

    async def patch(self, resource: Resource, name: str, namespace: str, body: Object, subresource: str = "") -> Object:
        before = self.caches.namespaces["a"]
        after = {**before, **body}
        cast(dict[str, Object], self.caches.namespaces)["a"] = after
        self.controller.on_update(before, after)
        return after

    async def update(self, resource: Resource, obj: Object, namespace: str, subresource: str) -> Object:
        self.finalized.set()
        return obj


def ending() -> Object:
    return {"metadata": {"name": "a", "deletionTimestamp": "t"}, "spec": {"finalizers": ["kubernetes"]}}


async def test_ending_namespace_is_not_tried_again_for_its_own_report() -> None:
    api, began = HeldPod(ending()), time.monotonic()
    task = asyncio.create_task(api.controller.run())
    api.controller.on_update({"metadata": {"name": "a"}}, ending())
    await asyncio.sleep(5.5 * DELAY_S)
    assert 2 <= api.passes <= 1 + (time.monotonic() - began) / DELAY_S
    api.gone = True
    await asyncio.wait_for(api.finalized.wait(), 5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_ending_namespace_is_finalized_at_once_when_its_last_pod_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workqueue, "BASE_DELAY_S", 60.0)
    monkeypatch.setattr(workqueue, "MAX_DELAY_S", 60.0)
    api = HeldPod(ending())
    task = asyncio.create_task(api.controller.run())
    api.controller.on_add(ending())
    await asyncio.sleep(DELAY_S)
    assert api.passes == 1
    api.gone = True
    api.controller.on_object_removed("a")
    await asyncio.wait_for(api.finalized.wait(), 5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
