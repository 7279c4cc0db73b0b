"""Pod garbage collection."""

import asyncio
import logging
from typing import Any, cast

import pytest

from actors.controllers.lifecycle import pod_gc
from actors.controllers.lifecycle.pod_gc import PodGarbageCollector, trim_pod
from protocols.kinds.table import NODES, Resource
from protocols.kube.errors import ApiAway, ApiError
from protocols.kubeclient.client import ApiClient


class Api:
    def __init__(self, nodes: tuple[str, ...] = ()) -> None:
        self.nodes = nodes
        self.away = 0
        """Deletions that the API does not take yet."""
        self.done: list[tuple[Any, ...]] = []

    async def get(self, resource: Resource, name: str) -> dict[str, Any]:
        assert resource is NODES
        if name not in self.nodes:
            raise ApiError(404, {"message": "not found"})
        return {}

    async def patch(self, resource: Resource, name: str, namespace: str, body: Any, **options: Any) -> None:
        self.done.append(("patch", name, body["status"].get("phase")))

    async def delete(self, resource: Resource, name: str, namespace: str, *, grace: int, uid: str) -> None:
        if self.away:
            self.away -= 1
            raise ApiAway("down")
        self.done.append(("delete", name, grace, uid))


def pod(name: str, node: str = "gone", **metadata: str) -> dict[str, Any]:
    whole = {"name": name, "namespace": "default", "uid": f"u{name}", "managedFields": [1], **metadata}
    return trim_pod({"metadata": whole, "spec": {"nodeName": node, "containers": []}, "status": {"phase": "Running"}})


async def run(api: Api, pods: list[dict[str, Any]], *nodes: Any) -> None:
    """`nodes` become what they are after the pods are known."""
    controller = PodGarbageCollector(api, logging.getLogger("test"), lambda namespace: None)  # type: ignore[arg-type]  # a fake
    controller.pods = {f"default/{each['metadata']['name']}": each for each in pods}
    known = controller.known = {each["metadata"]["name"]: {} for each in nodes}
    for each in pods:
        controller.on_add(each)
    for node in nodes:
        known[node["metadata"]["name"]] = node
        controller.nodes.on_update({}, node)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await controller.run()


def test_trim_pod_retains_node_phase_and_claims() -> None:
    assert pod("p") == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "up"},
        "spec": {"nodeName": "gone"},
        "status": {"phase": "Running"},
    }


async def test_pod_of_missing_node_is_failed_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_gc, "WAIT_S", 0.0)
    api = Api()
    await run(api, [pod("a")])
    assert api.done == [("patch", "a", "Failed"), ("delete", "a", 0, "ua")]


async def test_pod_stays_before_wait_or_if_node_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api()
    await run(api, [pod("a")])
    assert api.done == []
    monkeypatch.setattr(pod_gc, "WAIT_S", 0.0)
    api = Api(("gone",))
    await run(api, [pod("a")])
    assert api.done == []


async def test_unbound_deleted_pod_is_failed_and_removed_at_once() -> None:
    api = Api()
    await run(api, [pod("a", "", deletionTimestamp="2026-01-01T00:00:00Z"), pod("b", "")])
    assert api.done == [("patch", "a", "Failed"), ("delete", "a", 0, "ua")]


async def test_unbound_deleted_pod_that_the_api_did_not_remove_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """No change of it may ever come: it has no node, and is deleted already."""
    monkeypatch.setattr(pod_gc, "AGAIN_S", 0.0)
    api = Api()
    api.away = 2
    await run(api, [pod("a", "", deletionTimestamp="2026-01-01T00:00:00Z")])
    assert api.done == [*[("patch", "a", "Failed")] * 3, ("delete", "a", 0, "ua")]


async def test_evicted_and_old_finished_pods_are_removed_above_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_gc, "MOST_FINISHED", 2)
    pods = [pod(name, "n", creationTimestamp=f"2026-01-0{day}T00:00:00Z") for day, name in enumerate("abcde", 1)]
    for each in pods[1:]:
        each["status"]["phase"] = "Succeeded"
    pods[4]["status"] |= {"phase": "Failed", "reason": "Evicted"}
    api = Api(("n",))
    await run(api, pods[::-1], {"metadata": {"name": "n"}})
    assert api.done == [("delete", "e", 0, "ue"), ("delete", "b", 0, "ub")]


async def test_deleted_pod_is_removed_when_its_node_is_out_of_service() -> None:
    """Nobody else does: the agent that would end it is off."""
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}

    def node(name: str, ready: str, *taints: Any) -> dict[str, Any]:
        status = {"conditions": [{"type": "Ready", "status": ready}]}
        return {"metadata": {"name": name}, "spec": {"taints": taints}, "status": status}

    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    pods = [pod("a", "off", **deleted), pod("b", "off"), pod("c", "lost", **deleted), pod("d", "up", **deleted)]
    api = Api()
    await run(api, pods, node("off", "Unknown", taint), node("lost", "Unknown"), node("up", "True", taint))
    assert api.done == [("patch", "a", "Failed"), ("delete", "a", 0, "ua")]


async def test_finished_pod_of_missing_node_is_removed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with a finalizer stays: its status was written again each minute."""
    monkeypatch.setattr(pod_gc, "WAIT_S", 0.0)
    api, failed = Api(), pod("a")
    failed["status"]["phase"] = "Failed"
    await run(api, [failed])
    assert api.done == [("delete", "a", 0, "ua")]


def test_namespace_is_reported_when_its_last_pod_is_gone() -> None:
    """Each report asks for the deletion of all pods that are left."""
    left: list[str] = []
    controller = PodGarbageCollector(cast(ApiClient, None), logging.getLogger("test"), left.append)
    controller.known = {"n": {}}
    pods = [pod(name, "n") for name in "abc"]
    for each in pods:
        controller.on_add(each)
    controller.on_update(pods[0], pods[0])
    for each in pods[:2]:
        controller.on_delete(each)
    assert left == []
    controller.on_delete(pods[2])
    assert left == ["default"]
