"""PersistentVolumeClaims in scheduling: a pod whose claim is missing waits for it, and nobody else pays for volumes."""

import asyncio
from typing import Any

import pytest

from protocols.kinds.table import PERSISTENTVOLUMECLAIMS, STORAGECLASSES, Resource
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object, uid_of
from tests.support.memory_api import MemoryApi
from tests.support.scheduler_life import (
    Life,
    heard,
    leaving,
    node_of,
    nominated,
    put_node,
    put_pod,
    running,
    says,
    until,
)

TEXT = "0/1 nodes are available: {}. not found"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
DISK = {"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}
SCRATCH = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def put_disk(api: MemoryApi, name: str = "disk", phase: str = "Bound", **changes: Any) -> Object:
    metadata = {"name": name, "namespace": "ns", "annotations": BOUND, **changes.pop("metadata", {})}
    spec = {"volumeName": "pv-1", **changes}
    return api.put(PERSISTENTVOLUMECLAIMS, {"metadata": metadata, "spec": spec, "status": {"phase": phase}})


async def test_pod_whose_claim_is_missing_preempts_nobody_and_is_bound_once_it_is_there() -> None:
    api = MemoryApi()
    put_node(api, "n1", pods=1)
    running(api, "low", "n1")
    async with asyncio.timeout(60), Life(api) as life:
        put_pod(api, "p", priority=5, volumes=[DISK])
        await until("it waits", lambda: says(api, "p"))
        assert says(api, "p") == TEXT.format('persistentvolumeclaim "disk" not found')
        put_disk(api, "other")
        await heard()
        attempts = life.registry.get_sample_value(
            "scheduler_schedule_attempts_total", {"profile": "default-scheduler", "result": "unschedulable"}
        )
        assert (attempts, leaving(api), nominated(api, "p")) == (1, [], "")
        put_disk(api)
        await until("room is made for it", lambda: leaving(api) == ["low"])


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "lost": ({"phase": "Lost"}, 'persistentvolumeclaim "disk" bound to non-existent persistentvolume "pv-1"'),
    "terminating": (
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kubernetes.io/pvc-protection"]}},
        'persistentvolumeclaim "disk" is being deleted',
    ),
    "pending": ({"phase": "Pending", "volumeName": "", "metadata": {"annotations": {}}}, UNBOUND),
    "pending, of a class that does not exist": (
        {"volumeName": "", "storageClassName": "fast", "metadata": {"annotations": {}}},
        UNBOUND,
    ),
    "of a volume that is not bound to it yet": ({"metadata": {"annotations": {}}}, UNBOUND),
}


@pytest.mark.parametrize("why", FAULTS)
async def test_claim_that_cannot_be_used_keeps_its_pod_waiting(why: str) -> None:
    api, (changes, text) = MemoryApi(), FAULTS[why]
    put_node(api, "n1")
    put_disk(api, **{**changes})
    async with asyncio.timeout(60), Life(api):
        put_pod(api, "p", volumes=[DISK])
        await until("it waits", lambda: says(api, "p"))
        assert says(api, "p") == TEXT.format(text)
        api.drop(PERSISTENTVOLUMECLAIMS, "disk", "ns")
        put_disk(api)
        await until("bound", lambda: node_of(api, "p") == "n1")


async def test_claim_of_a_class_that_binds_late_holds_nobody_up() -> None:
    api = MemoryApi()
    put_node(api, "n1")
    late: dict[str, Any] = {"volumeName": "", "storageClassName": "local", "metadata": {"annotations": {}}}
    put_disk(api, phase="Pending", **late)
    async with asyncio.timeout(60), Life(api):
        put_pod(api, "p", volumes=[DISK])
        await until("it waits", lambda: says(api, "p"))
        api.put(STORAGECLASSES, {"metadata": {"name": "local"}, "volumeBindingMode": "WaitForFirstConsumer"})
        await until("bound", lambda: node_of(api, "p") == "n1")


async def test_claim_of_an_ephemeral_volume_belongs_to_its_pod() -> None:
    api = MemoryApi()
    put_node(api, "n1")
    async with asyncio.timeout(60), Life(api):
        pod = put_pod(api, "p", volumes=[SCRATCH])
        waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
        await until("it waits", lambda: says(api, "p") == TEXT.format(waiting))
        put_disk(api, "p-scratch")
        foreign = "PVC ns/p-scratch was not created for pod ns/p (pod is not owner)"
        await until("it is somebody else's", lambda: says(api, "p") == TEXT.format(foreign))
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid_of(pod), "controller": True}
        put_disk(api, "p-scratch", metadata={"ownerReferences": [owner]})
        await until("bound", lambda: node_of(api, "p") == "n1")


async def test_api_is_asked_for_claims_only_once_a_pod_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API that refuses to show them costs a warning: pods are bound as if there were no claims."""
    api, asked, known = MemoryApi(), [], MemoryApi.list

    async def listed(self: MemoryApi, resource: Resource, *arguments: Any, **query: Any) -> Object:
        asked.append(resource)
        if resource is PERSISTENTVOLUMECLAIMS:
            raise ApiError(403, {"message": "forbidden", "reason": "Forbidden"})
        return await known(self, resource, *arguments, **query)

    monkeypatch.setattr(MemoryApi, "list", listed)
    put_node(api, "n1")
    async with asyncio.timeout(60), Life(api):
        put_pod(api, "plain", volumes=[{"name": "v", "emptyDir": {}}])
        await until("bound", lambda: node_of(api, "plain"))
        assert not {PERSISTENTVOLUMECLAIMS, STORAGECLASSES} & {*asked}
        put_pod(api, "p", volumes=[DISK])
        await until("bound", lambda: node_of(api, "p"))
    assert asked.count(STORAGECLASSES) == 1


@pytest.mark.parametrize("volumes", [[{"persistentVolumeClaim": {}}], [7], "many"])
async def test_volume_of_a_wrong_shape_is_reported(volumes: Any) -> None:
    api = MemoryApi()
    put_node(api, "n1")
    async with asyncio.timeout(60), Life(api):
        put_pod(api, "p", volumes=volumes)
        await until("it waits", lambda: "field of the wrong shape" in says(api, "p"))
        put_pod(api, "next")
        await until("others go on", lambda: node_of(api, "next"))
