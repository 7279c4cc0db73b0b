"""Rules about other pods on a plane of three nodes: anti-affinity, topology spread, and a scheduler that is killed."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.plane import Plane, condition, until

HOST = "kubernetes.io/hostname"
NODES = {"n1", "n1-2", "n1-3"}


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with Plane("--node-name", "n1", "--nodes", "3") as plane:
        until("all nodes are ready", lambda: {each["metadata"]["name"] for each in ready_nodes(plane)} == NODES)
        yield plane


def ready_nodes(plane: Plane) -> list[dict[str, Any]]:
    return [each for each in plane.list("node") if condition(each, "Ready") == "True"]


def body(**spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "1000"]}
    return {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}


def apart(name: str) -> dict[str, Any]:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "apart"}}}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    metadata = {"name": name, "labels": {"app": "apart"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body(affinity=rules)}


def spread(replicas: int) -> dict[str, Any]:
    labels = {"app": "spread"}
    constraint = {
        "topologyKey": HOST,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
        "matchLabelKeys": ["pod-template-hash"],
    }
    template = {"metadata": {"labels": labels}, "spec": body(topologySpreadConstraints=[constraint])}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "spread"}, "spec": spec}


def placed(plane: Plane, app: str) -> Counter[str]:
    """Return the number of pods by node; "" for those that wait."""
    pods = (each for each in plane.list("pod") if each["metadata"]["labels"].get("app") == app)
    return Counter(str(each["spec"].get("nodeName", "")) for each in pods)


def test_anti_affinity_leaves_the_fourth_of_three_pending_until_one_leaves(plane: Plane) -> None:
    for at in range(4):
        plane.apply(apart(f"apart-{at}"))
    found = until("three of four are placed", lambda: placed(plane, "apart") == Counter((*NODES, "")))
    assert found
    (left,) = (each["metadata"]["name"] for each in plane.list("pod") if not each["spec"].get("nodeName"))
    text = "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules."
    fields = f"involvedObject.name={left},reason=FailedScheduling"
    until("its event", lambda: text in plane.kubectl("get", "events", "--field-selector", fields), every=0.3)
    first = min({f"apart-{at}" for at in range(4)} - {left})
    node = plane.get("pod", first)["spec"]["nodeName"]
    plane.kubectl("delete", "pod", first, "--wait=false")
    assert plane.pod_ready(left)["spec"]["nodeName"] == node
    assert placed(plane, "apart") == Counter(NODES)


def test_deployment_spreads_evenly_also_after_the_scheduler_is_killed(plane: Plane) -> None:
    plane.apply(spread(3))
    until("one on each node", lambda: placed(plane, "spread") == Counter(NODES))
    plane.kill("scheduler")
    plane.apply(spread(6))
    until("two on each node", lambda: placed(plane, "spread") == Counter([*NODES, *NODES]))
