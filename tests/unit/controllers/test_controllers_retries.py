"""Retries of failed keys, and namespaces that end: how often they are tried."""

import asyncio
import logging
import time
from typing import Any, cast

import pytest

from actors.controllers.garbage.collector import Collector
from actors.controllers.lifecycle import pod_gc
from actors.controllers.lifecycle.namespaces import NamespaceCaches, NamespaceController
from actors.controllers.lifecycle.pod_gc import PodGarbageCollector
from actors.controllers.services.controller import EndpointSliceController
from protocols.kinds.table import CONFIGMAPS, PODS, RESOURCECLAIMS, Resource
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object
from protocols.kubeclient import workqueue
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.workqueue import Key, Retries, WorkQueue
from protocols.process.tasks import FAILURES
from tests.support.memory_api import Events, MemoryApi
from tests.support.waiting import until_async, until_true

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


async def test_work_queue_step_that_raises_is_reported_retried_and_stops_no_other(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One object whose pass raised an unknown exception ended the process, again after each restart."""
    monkeypatch.setattr(workqueue, "MAX_BROKEN_S", DELAY_S)
    done: list[Key] = []
    failures, raised = FAILURES["reconcile"], 0

    async def step(key: Key) -> None:
        nonlocal raised
        if key[1] == "poison" and raised < 3:
            raised += 1
            raise ZeroDivisionError("a bug")
        done.append(key)

    queue = WorkQueue(step, logging.getLogger("test"), workers=1)
    task = asyncio.create_task(queue.run())
    queue.put(("pod", "poison"), ("pod", "a"))
    await until_async("retried", lambda: ("pod", "poison") in done)
    assert done[0] == ("pod", "a")
    assert FAILURES["reconcile"] == failures + 3
    assert "task reconcile pod poison failed: ZeroDivisionError: a bug" in caplog.text
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_garbage_collector_survives_an_object_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workqueue, "MAX_BROKEN_S", DELAY_S)
    seen: list[str] = []

    async def step(uid: str) -> None:
        seen.append(uid)
        if seen.count(uid) == 1:
            raise KeyError("a bug")

    collector = Collector(cast(ApiClient, None), logging.getLogger("test"), Events())
    monkeypatch.setattr(collector, "_step", step)
    task = asyncio.create_task(collector.run())
    for uid in ("a", "b"):
        collector.upsert(PODS, {"metadata": {"uid": uid, "name": uid, "namespace": "n"}})
    await until_async("retried", lambda: sorted(seen) == ["a", "a", "b", "b"])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_garbage_collector_reports_an_owner_in_another_namespace() -> None:
    api, events = MemoryApi(), Events()
    owner = api.put(CONFIGMAPS, {"metadata": {"name": "o", "namespace": "a"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": owner["metadata"]["uid"]}
    lost = api.put(CONFIGMAPS, {"metadata": {"name": "d", "namespace": "b", "ownerReferences": [reference]}})
    collector = Collector(cast(ApiClient, api), logging.getLogger("test"), events)
    for obj in (owner, lost):
        collector.upsert(CONFIGMAPS, obj)
    task = asyncio.create_task(collector.run())
    await until_async("deleted", lambda: [*api.objects["configmaps"]] == ["a/o"])
    task.cancel()
    named = f"[v1/ConfigMap, namespace: b, name: o, uid: {reference['uid']}]"
    assert events.told == [("b/d", "OwnerRefInvalidNamespace", f'ownerRef {named} does not exist in namespace "b"')]


async def test_node_that_raises_stops_no_removal_of_lost_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = PodGarbageCollector(cast(ApiClient, None), logging.getLogger("test"), lambda namespace: None)
    seen: list[str] = []

    async def process(node: str) -> None:
        seen.append(node)
        raise KeyError("a bug")

    monkeypatch.setattr(collector, "_process", process)
    monkeypatch.setattr(pod_gc, "WAIT_S", 0.0)
    task = asyncio.create_task(collector.run())
    for node in ("a", "b"):
        collector.on_add({"metadata": {"uid": node, "name": node, "namespace": "n"}, "spec": {"nodeName": node}})
    await until_async("both", lambda: seen == ["a", "b"])
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_endpoint_controller_keeps_nothing_of_namespaces_without_services() -> None:
    """Each namespace left an empty dictionary behind, for ever."""
    controller = EndpointSliceController(cast(ApiClient, None), logging.getLogger("test"))
    monkeypatched = cast(Any, controller)
    monkeypatched._put = lambda key: None
    spec = {"selector": {"app": "web"}}
    for name in ("a", "b", "c"):
        service = {"metadata": {"name": "web", "namespace": name}, "spec": spec}
        controller._service_changed(service)
        controller._service_changed({"metadata": {"name": "headless", "namespace": f"{name}2"}, "spec": {}})
        controller._service_gone(service)
    assert controller._by_namespace == {}


async def test_label_that_a_service_loses_leaves_its_slices() -> None:
    api = MemoryApi()
    controller = EndpointSliceController(cast(ApiClient, api), logging.getLogger("test"))
    service = {"metadata": {"name": "web", "namespace": "ns", "uid": "u", "labels": {"chart": "a", "old": "1"}}}
    slices = api.objects["endpointslices"]
    for labels in ({"chart": "a", "old": "1"}, {"chart": "b"}):
        service = {"metadata": {**service["metadata"], "labels": labels}, "spec": {"selector": {"app": "web"}}}
        controller._service_changed(service)
        await controller._sync(("endpoints", "ns/web"))
        (found,) = slices.values()
        controller._slice_changed(found)
        assert labels.items() <= found["metadata"]["labels"].items()
    assert "old" not in found["metadata"]["labels"]


async def test_slices_that_go_while_others_are_deleted_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the service's, so that garbage collection deletes them as well."""
    api = MemoryApi()
    controller = EndpointSliceController(cast(ApiClient, api), logging.getLogger("test"))
    controller._service_changed(
        {"metadata": {"name": "web", "namespace": "ns", "uid": "u"}, "spec": {"selector": {"app": "web"}}}
    )
    label = {"kubernetes.io/service-name": "web"}
    slices = [{"metadata": {"name": f"web-{at}", "namespace": "ns", "uid": f"u{at}", "labels": label}} for at in (1, 2)]
    for endpoint_slice in slices:
        controller._slice_changed(endpoint_slice)

    async def delete(*_: Any, **__: Any) -> Object:
        for endpoint_slice in slices:
            controller._slice_gone(endpoint_slice)
        return {}

    monkeypatch.setattr(api, "delete", delete)
    await controller._sync(("endpoints", "ns/web"))
    assert not controller._slices


async def test_slices_of_a_service_that_loses_its_selector_stay() -> None:
    """They were deleted, and with them the endpoints of a service whose user takes them over."""
    api = MemoryApi()
    controller = EndpointSliceController(cast(ApiClient, api), logging.getLogger("test"))
    metadata = {"name": "web", "namespace": "ns", "uid": "u"}
    for spec in ({"selector": {"app": "web"}}, {}):
        controller._service_changed({"metadata": metadata, "spec": spec})
        await controller._sync(("endpoints", "ns/web"))
        (found,) = api.objects["endpointslices"].values()
        controller._slice_changed(found)


class HeldPod:
    """An API with a namespace whose only pod stays until `gone`; each status report is an update of the namespace."""

    def __init__(self, namespace: Object) -> None:
        self.caches = NamespaceCaches(namespaces={"a": namespace})
        self.controller = NamespaceController(
            cast(ApiClient, self), "CA", logging.getLogger("test"), cast(Any, self.caches)
        )
        self.gone = False
        self.unserved: frozenset[Resource] = frozenset()
        self.passes = 0
        self.finalized = asyncio.Event()

    async def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        return obj

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> Object:
        await asyncio.sleep(0)
        if resource in self.unserved:
            raise ApiError(404, {"message": "the server could not find the requested resource"})
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
    await until_true(lambda: api.passes >= 2)
    await asyncio.sleep(3.5 * DELAY_S)
    assert api.passes <= 1 + (time.monotonic() - began) / DELAY_S
    api.gone = True
    await asyncio.wait_for(api.finalized.wait(), 5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_ending_namespace_ends_where_the_api_lacks_a_kind() -> None:
    """Beside a kube-apiserver without resource.k8s.io, namespaces were never finalized."""
    api = HeldPod(ending())
    api.gone = True
    api.unserved = frozenset({RESOURCECLAIMS})
    task = asyncio.create_task(api.controller.run())
    api.controller.enqueue("a")
    await asyncio.wait_for(api.finalized.wait(), 5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_ending_namespace_that_is_gone_is_no_failed_pass(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The removal of its last object began another pass before the informer saw that it had ended."""
    caplog.set_level(logging.INFO)
    api, updates = HeldPod(ending()), list[str]()
    api.gone = True

    async def missing(resource: Resource, obj: Object, namespace: str, subresource: str) -> Object:
        updates.append(subresource)
        raise ApiError(404, {"message": 'namespaces "a" not found'})

    monkeypatch.setattr(api, "update", missing)
    task = asyncio.create_task(api.controller.run())
    api.controller.enqueue("a")
    await until_true(lambda: updates == ["finalize"])
    await asyncio.sleep(3 * DELAY_S)
    assert updates == ["finalize"]
    assert "reconcile failed" not in caplog.text
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


async def test_namespace_whose_content_goes_slowly_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new namespace has no service account for pods meanwhile."""
    api, created = HeldPod(ending()), list[str]()
    cast(dict[str, Object], api.caches.namespaces)["b"] = {"metadata": {"name": "b"}}

    async def never(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    async def create(resource: Resource, obj: Object, namespace: str = "") -> Object:
        created.append(f"{namespace}/{obj['metadata']['name']}")
        return obj

    monkeypatch.setattr(api, "delete_collection", never)
    monkeypatch.setattr(api, "create", create)
    task = asyncio.create_task(api.controller.run())
    api.controller.enqueue("a")
    await asyncio.sleep(0)
    api.controller.enqueue("b")
    await until_true(lambda: "b/default" in created)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
