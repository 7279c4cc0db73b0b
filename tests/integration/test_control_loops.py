"""Scheduler and controllers against the real API server, driven with kubectl.

The simulation's profiles `control` and `plane` kill each of them, and let many pods compete for few devices.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.support.apiserver_plane import Plane, running_plane
from tests.support.plane_get import get

GPU = "example.com/gpu"


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """An API server with controllers and scheduler."""
    with running_plane() as running:
        running.spawn("controllers")
        running.spawn("scheduler")
        yield running


def until(plane: Plane, true: Callable[[], Any], what: str, timeout: float = 60.0) -> Any:
    return plane.until(what, true, timeout)


def events(plane: Plane, name: str, reason: str) -> list[Any]:
    """Of a pod; an event follows what it tells of."""
    found = get(plane, "events", f"--field-selector=involvedObject.name={name},reason={reason}")
    return found["items"] if found else []


def apply(plane: Plane, *objects: dict[str, Any]) -> None:
    plane.kubectl("create", "-f", "-", stdin="\n---\n".join(map(json.dumps, objects)))


def node(plane: Plane, name: str, gpus: int) -> None:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110", GPU: str(gpus)}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    meta = {"name": name, "labels": {"zone": name}}
    apply(plane, {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})


def pod(name: str, gpus: int, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"limits": {GPU: str(gpus)}}}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


def namespace(plane: Plane, name: str) -> None:
    apply(plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def place_of(plane: Plane, name: str) -> str:
    found = get(plane, "pod", name)
    return str((found or {}).get("spec", {}).get("nodeName", ""))


def waits(plane: Plane, name: str) -> str:
    conditions = get(plane, "pod", name).get("status", {}).get("conditions") or []
    return next((c["message"] for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), "")


def test_namespaces_hold_what_clients_expect(plane: Plane) -> None:
    for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
        until(plane, partial(get, plane, "namespace", name), f"namespace {name}")
        until(plane, partial(get, plane, "-n", name, "sa", "default"), f"account in {name}")
    namespace(plane, "mine")
    root = until(plane, lambda: get(plane, "-n", "mine", "cm", "kube-root-ca.crt"), "the CA in a new namespace")
    assert root["data"]["ca.crt"] == plane.settings.layout.ca_cert.read_text()


def test_what_was_deleted_or_changed_comes_back(plane: Plane) -> None:
    old = until(plane, lambda: get(plane, "sa", "default"), "the account")
    plane.kubectl("delete", "sa", "default")
    until(plane, lambda: (get(plane, "sa", "default") or old)["metadata"]["uid"] != old["metadata"]["uid"], "it again")
    until(plane, lambda: get(plane, "cm", "kube-root-ca.crt"), "the CA")
    plane.kubectl("patch", "cm", "kube-root-ca.crt", "--type=merge", "-p", '{"data":{"ca.crt":"forged"}}')
    until(plane, lambda: get(plane, "cm", "kube-root-ca.crt")["data"]["ca.crt"] != "forged", "the right CA")


def test_a_deleted_namespace_goes_with_its_content(plane: Plane) -> None:
    namespace(plane, "brief")
    until(plane, lambda: get(plane, "-n", "brief", "sa", "default"), "its account")
    apply(plane, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "brief"}})
    apply(plane, pod("p", 99, "brief"))
    plane.kubectl("delete", "namespace", "brief", "--wait=false")
    until(plane, lambda: get(plane, "namespace", "brief") is None, "the namespace to go")
    assert get(plane, "-n", "brief", "cm,pods,sa") is None


def test_namespace_ends_with_its_pods_first_and_says_what_is_left(plane: Plane) -> None:
    namespace(plane, "held")
    until(plane, lambda: get(plane, "-n", "held", "sa", "default"), "its account")
    apply(plane, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "held"}})
    made = pod("p", 99, "held")
    made["metadata"]["finalizers"] = ["example.com/hold"]
    apply(plane, made)
    plane.kubectl("delete", "namespace", "held", "--wait=false")

    def told() -> dict[str, tuple[str, str]]:
        conditions = get(plane, "namespace", "held")["status"].get("conditions") or []
        return {condition["type"]: (condition["status"], condition["message"]) for condition in conditions}

    until(plane, lambda: told().get("NamespaceFinalizersRemaining", ("",))[0] == "True", "its conditions")
    left = "Some resources are remaining: pods. has 1 resource instances"
    assert told()["NamespaceContentRemaining"] == ("True", left)
    assert "example.com/hold in 1 resource instances" in told()["NamespaceFinalizersRemaining"][1]
    assert get(plane, "-n", "held", "cm", "c"), "pods end before what they use"
    plane.kubectl("-n", "held", "patch", "pod", "p", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    until(plane, lambda: get(plane, "namespace", "held") is None, "the namespace to go")


def test_daemon_set_has_a_pod_on_each_of_two_nodes_and_on_a_cordoned_one(plane: Plane) -> None:
    for name in ("d1", "d2", "d3"):
        node(plane, name, gpus=0)
    plane.kubectl("cordon", "d3")
    labels = {"app": "each"}
    container = {"name": "c", "image": "x"}
    names = {"key": "zone", "operator": "In", "values": ["d1", "d2", "d3"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [names]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "affinity": affinity}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    apply(plane, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "each"}, "spec": spec})

    def placed() -> list[str]:
        pods = (get(plane, "pods", "-l", "app=each") or {"items": []})["items"]
        return sorted(pod["spec"].get("nodeName", "") for pod in pods)

    until(plane, lambda: placed() == ["d1", "d2", "d3"], "a pod on each")
    plane.kubectl("delete", "node", "d2", "--wait=false")
    until(plane, lambda: get(plane, "ds", "each")["status"]["desiredNumberScheduled"] == 2, "two nodes in the status")
    plane.kubectl("delete", "ds", "each", "--wait=false")
    plane.kubectl("delete", "node", "d1", "d3", "--wait=false")


def test_pods_are_placed_by_devices_and_wait_for_them(plane: Plane) -> None:
    apply(plane, pod("first", 3))
    until(plane, lambda: waits(plane, "first") == "no nodes available to schedule pods", "why it waits")
    node(plane, "n1", gpus=4)
    until(plane, lambda: place_of(plane, "first") == "n1", "a node for it")
    apply(plane, pod("second", 2))
    text = (
        f"0/1 nodes are available: 1 Insufficient {GPU}. no new claims to deallocate,"
        " preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    until(plane, lambda: waits(plane, "second") == text, "why the second waits")
    failed = "FailedScheduling"
    until(
        plane,
        lambda: [(e["message"], e["type"]) for e in events(plane, "second", failed)] == [(text, "Warning")],
        "told",
    )
    plane.kubectl("delete", "pod", "first", "--grace-period=0", "--force")
    until(plane, lambda: place_of(plane, "second") == "n1", "its place")
    until(plane, lambda: events(plane, "second", "Scheduled"), "the event")
    plane.kubectl("delete", "pod", "second", "--grace-period=0", "--force")


DRA = "resource.k8s.io/v1"


def devices(plane: Plane, count: int) -> None:
    names = [{"name": f"dev-{at}"} for at in range(count)]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n1", "pool": pool, "devices": names}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    apply(
        plane,
        {"apiVersion": DRA, "kind": "ResourceSlice", "metadata": {"name": "n1-d"}, "spec": spec},
        {"apiVersion": DRA, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        {
            "apiVersion": DRA,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "gpu", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        },
    )


def claims_of(plane: Plane, name: str) -> list[Any]:
    listed = (get(plane, "resourceclaims") or {}).get("items", [])
    return [claim for claim in listed if claim["metadata"]["name"].startswith(name)]


def test_a_pod_gets_a_claim_the_claim_a_device_and_both_go_together(plane: Plane) -> None:
    devices(plane, 1)
    entries = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    apply(plane, pod("user", 0, resourceClaims=entries), pod("waits", 0, resourceClaims=entries))
    first = until(plane, lambda: next((p for p in ("user", "waits") if place_of(plane, p)), ""), "a node for one")
    second = "waits" if first == "user" else "user"
    (claim,) = claims_of(plane, f"{first}-gpu-")
    assert [result["device"] for result in claim["status"]["allocation"]["devices"]["results"]] == ["dev-0"]
    assert [each["name"] for each in claim["status"]["reservedFor"]] == [first]
    until(plane, lambda: "cannot allocate all claims" in waits(plane, second), "the reason of the other")
    plane.kubectl("delete", "pod", first, "--grace-period=0", "--force")
    until(plane, lambda: place_of(plane, second) == "n1", "the device for the other")
    until(plane, lambda: not claims_of(plane, f"{first}-gpu-"), "its claim is gone")
    plane.kubectl("delete", "pod", second, "--grace-period=0", "--force")
    until(plane, lambda: not claims_of(plane, f"{second}-gpu-"), "the last claim is gone")
