"""Pods that are resized: what they count on their node meanwhile, and who gets the room that one gives up."""

import asyncio
from typing import Any, cast

import pytest

from protocols.kinds import views
from protocols.kinds.table import NODES, PODS
from protocols.kube.quantity import NANO
from protocols.scheduling.requests import pod_requests, with_resize
from tests.support.memory_api import MemoryApi
from tests.support.scheduler_life import Life, node_of, put_node, put_pod, running, says, the, until


def asking(cpu: str) -> list[dict[str, Any]]:
    return [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]


def counted(asks: str, allocated: str, has: str, reason: str = "") -> int:
    """Return the cpus that a pod of one container counts."""
    status: dict[str, Any] = {
        "containerStatuses": [
            {"name": "c", "allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": has}}}
        ],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else [],
    }
    pod = cast("views.Pod", {"spec": {"containers": asking(asks)}, "status": status})
    return pod_requests(with_resize(pod, pod["spec"]))["cpu"] // NANO


@pytest.mark.parametrize(
    ("asks", "allocated", "has", "reason", "cpus"),
    [
        ("2", "2", "2", "", 2),
        ("1", "2", "2", "", 2),  # its node has not seen the resize yet
        ("1", "1", "2", "", 2),  # the runtime has not done it yet
        ("1", "1", "1", "", 1),
        ("2", "1", "1", "Deferred", 2),
        ("9", "1", "1", "Infeasible", 1),
        ("9", "1", "2", "Infeasible", 2),
        ("1", "1000m", "1000m", "", 1),
    ],
)
def test_pod_counts_the_most_of_what_it_asks_was_allocated_and_has(
    asks: str, allocated: str, has: str, reason: str, cpus: int
) -> None:
    assert counted(asks, allocated, has, reason) == cpus


def test_sidecar_that_shrinks_counts_what_it_has() -> None:
    sidecar = {**asking("1")[0], "restartPolicy": "Always"}
    status = {"initContainerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]}
    pod = cast("views.Pod", {"spec": {"containers": asking("1"), "initContainers": [sidecar]}, "status": status})
    assert pod_requests(with_resize(pod, pod["spec"]))["cpu"] == 4 * NANO


async def test_pod_that_waits_gets_the_room_of_one_that_was_resized() -> None:
    api = MemoryApi()
    put_node(api, "n1")
    node = the(api, NODES, "n1")
    node["status"]["allocatable"]["cpu"] = "2"
    api.put(NODES, node)
    large = running(api, "large", "n1", containers=asking("2"))
    async with asyncio.timeout(60), Life(api):
        put_pod(api, "p", containers=asking("1"))
        await until("p waits", lambda: "1 Insufficient cpu" in says(api, "p"))
        api.put(PODS, {**large, "spec": {**large["spec"], "containers": asking("1")}})
        await until("p is bound", lambda: node_of(api, "p") == "n1")
