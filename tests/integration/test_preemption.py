"""Preemption on a whole plane: a device of a plugin, a budget, and victims that ignore SIGTERM."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.plane import Plane, until

GPU = "example.com/gpu"


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane with two devices of a plugin."""
    with Plane() as plane:
        plane.plugin(GPU, devices=2)
        high = {"value": 1000, "metadata": {"name": "high"}, "kind": "PriorityClass"}
        plane.apply({"apiVersion": "scheduling.k8s.io/v1", **high})
        until("both devices", lambda: allocatable(plane) == "2")
        yield plane


def allocatable(plane: Plane) -> str:
    (node,) = plane.list("node") or [{}]
    return str(node.get("status", {}).get("allocatable", {}).get(GPU))


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod with one device that ignores SIGTERM."""
    command = ["sh", "-c", "trap '' TERM; while true; do sleep 1; done"]
    container = {"name": "main", "image": "busybox", "command": command, "resources": {"limits": {GPU: "1"}}}
    body = {"terminationGracePeriodSeconds": 1, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": body}


def preempted(plane: Plane) -> list[str]:
    text = plane.kubectl("get", "events", "-o", "jsonpath={.items[?(@.reason=='Preempted')].involvedObject.name}")
    return sorted(set(text.split()))


def test_device_of_a_plugin_is_taken_from_the_pod_without_a_budget(plane: Plane) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guarded"}, "spec": spec}
    plane.apply(budget)
    for name in ("guarded", "plain"):
        plane.apply(pod(name))
    for name in ("guarded", "plain"):
        plane.pod_ready(name)
    healthy = ("get", "pdb", "guarded", "-o", "jsonpath={.status.currentHealthy}{.status.disruptionsAllowed}")
    until("the budget is known", lambda: plane.kubectl(*healthy) in ("1", "10"))
    plane.apply(pod("urgent", priorityClassName="high"))
    urgent = plane.pod_ready("urgent")
    assert "nominatedNodeName" not in urgent["status"]
    assert not plane.get("pod", "plain")
    assert "deletionTimestamp" not in plane.get("pod", "guarded")["metadata"]
    until("the event", lambda: preempted(plane) == ["plain"])
