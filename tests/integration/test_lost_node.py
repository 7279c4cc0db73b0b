"""A node stops reporting: taints, eviction by tolerations, and its return."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.plane import Plane, until

LOST = "n2"
UNREACHABLE = "node.kubernetes.io/unreachable"


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """Node n1 of the plane, which counts a node as lost after 15 s, and n2 that joined it from a root of its own."""
    with Plane("--node-name", "n1", "--node-monitor-grace-period", "15") as plane:
        access, root = str(plane.root / "n2.kubeconfig"), str(plane.root / "j")
        plane.nodeplane("node-config", LOST, "-o", access)
        plane.nodeplane("--root", root, "up", "--detach", "--metrics-port", "0", "--join", access, timeout=100)
        yield plane
        plane.nodeplane("--root", root, "down", timeout=100)


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "1000"]}
    whole = {"terminationGracePeriodSeconds": 1, "nodeName": LOST, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


@contextmanager
def stopped_node(plane: Plane) -> Iterator[None]:
    """Stop the actors and the supervisor of n2, as a machine that lost its network looks to others."""
    status = json.loads(plane.nodeplane("--root", str(plane.root / "j"), "status", "-o", "json"))
    stopped = [status["pid"], *(row["pid"] for row in status["actors"] if row["pid"])]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(stopped):
            os.kill(pid, signal.SIGCONT)


def taints(plane: Plane, node: str) -> set[tuple[str, str]]:
    found = plane.get("node", node).get("spec", {}).get("taints") or ()
    return {(taint["key"], taint["effect"]) for taint in found}


def ready(obj: dict[str, Any]) -> str:
    conditions = obj.get("status", {}).get("conditions") or ()
    return next((entry["status"] for entry in conditions if entry["type"] == "Ready"), "")


def test_lost_node_evicts_intolerant_pods_and_returns_with_the_others(plane: Plane) -> None:
    tolerated = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}
    plane.apply(pod("brief", tolerations=[{**tolerated, "tolerationSeconds": 0}]))
    plane.apply(pod("patient", tolerations=[{**tolerated, "tolerationSeconds": 3000}]))
    uids = {name: plane.pod_ready(name)["metadata"]["uid"] for name in ("brief", "patient")}
    assert taints(plane, LOST) == set()
    with stopped_node(plane):
        evicted = until("eviction", lambda: _deleted(plane.get("pod", "brief")), timeout=90)
        reasons = [entry["reason"] for entry in evicted["status"]["conditions"] if entry["type"] == "DisruptionTarget"]
        assert reasons == ["DeletionByTaintManager"]
        assert taints(plane, LOST) == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
        assert ready(plane.get("node", LOST)) == "Unknown"
        until("pod not ready", lambda: ready(plane.get("pod", "patient")) == "False")
        assert "deletionTimestamp" not in plane.get("pod", "patient")["metadata"]
        assert taints(plane, "n1") == set()
    until("taints removed", lambda: taints(plane, LOST) == set(), timeout=90)
    until("evicted pod gone", lambda: not plane.get("pod", "brief"), timeout=90)
    assert plane.pod_ready("patient")["metadata"]["uid"] == uids["patient"]


def test_cordoned_node_is_tainted_until_it_is_uncordoned(plane: Plane) -> None:
    plane.kubectl("cordon", "n1")
    until("tainted", lambda: taints(plane, "n1") == {("node.kubernetes.io/unschedulable", "NoSchedule")})
    plane.kubectl("uncordon", "n1")
    until("taint removed", lambda: taints(plane, "n1") == set())


def _deleted(found: dict[str, Any]) -> dict[str, Any] | None:
    return found if found.get("metadata", {}).get("deletionTimestamp") else None
