"""Preemption on a whole plane: devices of a plugin and of a DRA driver, a budget, and a scheduler that is killed."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.mistreat import hit, replaced
from tests.support.plane import Plane, condition, until

PLUGIN, DRIVER = "example.com/gpu", "dra.example.com"
RESOURCE = "resource.k8s.io/v1"


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane with two devices of a plugin and two of a DRA driver."""
    with Plane() as plane:
        plane.plugin(PLUGIN, devices=2)
        plane.start("dra-driver", "--driver", DRIVER, "--devices", "2", log="driver.log")
        high = {"value": 1000, "metadata": {"name": "high"}, "kind": "PriorityClass"}
        plane.apply({"apiVersion": "scheduling.k8s.io/v1", **high})
        plane.apply(
            thing("DeviceClass", "dra", {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]})
        )
        requests = [{"name": "r", "exactly": {"deviceClassName": "dra"}}]
        plane.apply(thing("ResourceClaimTemplate", "one", {"spec": {"devices": {"requests": requests}}}))
        until(
            "both publish", lambda: allocatable(plane) == "2" and plane.kubectl("get", "resourceslices", "-o", "name")
        )
        yield plane


def allocatable(plane: Plane) -> str:
    (node,) = plane.list("node") or [{}]
    return str(node.get("status", {}).get("allocatable", {}).get(PLUGIN))


def thing(kind: str, name: str, spec: Any, version: str = RESOURCE) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def pod(name: str, *, of_driver: bool, grace: int = 1, **spec: Any) -> dict[str, Any]:
    """A pod with one device that ignores SIGTERM."""
    resources = {"claims": [{"name": "c"}]} if of_driver else {"limits": {PLUGIN: "1"}}
    claims = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "one"}]} if of_driver else {}
    command = ["sh", "-c", "trap '' TERM; while true; do sleep 1; done"]
    container = {"name": "main", "image": "busybox", "command": command, "resources": resources}
    body = {"terminationGracePeriodSeconds": grace, "containers": [container], **claims, **spec}
    made = thing("Pod", name, body, "v1")
    return {**made, "metadata": {"name": name, "labels": {"app": name}}}


def nominated(plane: Plane, name: str) -> str:
    return str(plane.get("pod", name).get("status", {}).get("nominatedNodeName", ""))


def waits(plane: Plane, name: str) -> bool:
    return condition(plane.get("pod", name), "PodScheduled") == "False"


def preempted(plane: Plane) -> list[str]:
    text = plane.kubectl("get", "events", "-o", "jsonpath={.items[?(@.reason=='Preempted')].involvedObject.name}")
    return sorted(set(text.split()))


def delete(plane: Plane, *names: str) -> None:
    plane.kubectl("delete", "pod", "--grace-period=0", "--force", *names)
    until("pods gone", lambda: not plane.list("pod"))


def test_device_of_a_plugin_is_taken_from_the_pod_without_a_budget(plane: Plane) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    plane.apply(thing("PodDisruptionBudget", "guarded", spec, "policy/v1"))
    for name in ("guarded", "plain"):
        plane.apply(pod(name, of_driver=False))
    for name in ("guarded", "plain"):
        plane.pod_ready(name)
    healthy = ("get", "pdb", "guarded", "-o", "jsonpath={.status.currentHealthy}{.status.disruptionsAllowed}")
    until("the budget is known", lambda: plane.kubectl(*healthy) in ("1", "10"))
    plane.apply(pod("urgent", of_driver=False, priorityClassName="high"))
    urgent = plane.pod_ready("urgent")
    assert "nominatedNodeName" not in urgent["status"]
    assert not plane.get("pod", "plain")
    assert "deletionTimestamp" not in plane.get("pod", "guarded")["metadata"]
    until("the event", lambda: preempted(plane) == ["plain"])
    delete(plane, "guarded", "urgent")


def test_killed_scheduler_takes_no_second_pod_for_a_claim_and_keeps_the_device(plane: Plane) -> None:
    for name in ("one", "two"):
        plane.apply(pod(name, of_driver=True, grace=6))
    for name in ("one", "two"):
        plane.pod_ready(name)
    plane.apply(pod("first", of_driver=True, priorityClassName="high"))
    node = until("nominated", lambda: nominated(plane, "first"))
    leaving = until("a victim leaves", lambda: [n for n in ("one", "two") if is_leaving(plane, n)])
    target = plane.get("pod", leaving[0])
    assert condition(target, "DisruptionTarget") == "True"
    before = hit(plane, "scheduler")
    plane.apply(pod("rival", of_driver=True))
    replaced(plane, before)
    until("the rival waits", lambda: waits(plane, "rival"))
    plane.pod_ready("first")
    (stays,) = {"one", "two"} - set(leaving)
    assert plane.get("pod", "first")["spec"]["nodeName"] == node
    assert "deletionTimestamp" not in plane.get("pod", stays)["metadata"]
    assert waits(plane, "rival")
    delete(plane, "first", "rival", stays)


def is_leaving(plane: Plane, name: str) -> bool:
    return "deletionTimestamp" in plane.get("pod", name).get("metadata", {})
