"""Owners, evictions and the ends of namespaces: API server, controllers and scheduler, driven with kubectl."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.apiserver_plane import REPOSITORY, Plane, running_plane
from tests.support.engine import etcd_if_there
from tests.support.plane_get import get

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """An API server with controllers and a node."""
    with running_plane(store=etcd_if_there()) as running:
        running.spawn("controllers")
        running.kubectl("create", "-f", "-", stdin=json.dumps(NODE))
        yield running


def until(plane: Plane, true: Callable[[], Any], what: str, timeout: float = 60.0) -> Any:
    return plane.until(what, true, timeout)


def configmap(plane: Plane, name: str, owner: str = "", uid: str = "", **more: Any) -> str:
    """Its uid."""
    metadata: dict[str, Any] = {"name": name, **more}
    if owner:
        uid = uid or get(plane, "cm", owner)["metadata"]["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": True}
        metadata["ownerReferences"] = [reference]
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(obj))
    return str(get(plane, "cm", name)["metadata"]["uid"])


def pod(plane: Plane, name: str, namespace: str = "default", **metadata: Any) -> None:
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "x"}]}
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, **metadata}}
    plane.kubectl("create", "-f", "-", stdin=json.dumps({**obj, "spec": spec}))


def test_what_is_owned_goes_with_its_owner(plane: Plane) -> None:
    configmap(plane, "top")
    configmap(plane, "middle", "top")
    configmap(plane, "leaf", "middle")
    plane.kubectl("delete", "cm", "top")
    until(plane, lambda: get(plane, "cm", "leaf") is None, "the leaf to go")
    assert get(plane, "cm", "middle") is None


def test_an_owner_that_never_was_is_no_owner(plane: Plane) -> None:
    configmap(plane, "alive")
    plane.kubectl("create", "-f", "-", stdin=json.dumps({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "alive", "uid": "someone-else"}]},
    }))  # fmt: skip
    until(plane, lambda: get(plane, "cm", "child") is None, "the child of nobody to go")
    assert get(plane, "cm", "alive")


def test_the_foreground_goes_last(plane: Plane) -> None:
    configmap(plane, "front")
    configmap(plane, "held", "front", finalizers=["example.com/hold"])
    plane.kubectl("delete", "cm", "front", "--cascade=foreground", "--wait=false")
    until(plane, lambda: "deletionTimestamp" in get(plane, "cm", "held")["metadata"], "the child to end first")
    assert get(plane, "cm", "front")["metadata"]["finalizers"] == ["foregroundDeletion"]
    plane.kubectl("patch", "cm", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    until(plane, lambda: get(plane, "cm", "front") is None, "the owner to go")


def test_orphans_stay(plane: Plane) -> None:
    configmap(plane, "parent")
    configmap(plane, "orphan", "parent")
    plane.kubectl("delete", "cm", "parent", "--cascade=orphan")
    assert "ownerReferences" not in get(plane, "cm", "orphan")["metadata"]


def test_drain_evicts(plane: Plane) -> None:
    pod(plane, "drained")
    plane.kubectl("cordon", "n1")
    arguments = ("--ignore-daemonsets", "--force", "--delete-emptydir-data", "--grace-period=1", "--timeout=60s")
    plane.kubectl("drain", "n1", "--dry-run=server", *arguments[:3])
    assert "deletionTimestamp" not in get(plane, "pod", "drained")["metadata"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "drained"}}
    path = "/api/v1/namespaces/default/pods/drained/eviction"
    assert "Success" in plane.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    found = get(plane, "pod", "drained")
    reasons = {c["type"]: c["reason"] for c in found["status"]["conditions"] if "reason" in c}
    assert reasons["DisruptionTarget"] == "EvictionByEvictionAPI"
    assert found["metadata"]["deletionTimestamp"]
    plane.kubectl("delete", "pod", "drained", "--force", "--grace-period=0")
    assert "n1 drained" in plane.kubectl("drain", "n1", *arguments)
    plane.kubectl("uncordon", "n1")


def test_a_namespace_ends_when_its_last_pod_does(plane: Plane) -> None:
    plane.kubectl("create", "namespace", "full")
    for number in range(3):
        pod(plane, f"p{number}", "full")
    plane.kubectl("delete", "namespace", "full", "--wait=false")
    until(plane, lambda: all("deletionTimestamp" in p["metadata"] for p in get(plane, "pods", "-n", "full")["items"]),
          "its pods to be told")  # fmt: skip
    plane.kubectl("delete", "pods", "-n", "full", "--all", "--force", "--grace-period=0")
    until(plane, lambda: get(plane, "namespace", "full") is None, "the namespace to go")


def test_a_collection_is_deleted_by_selector(plane: Plane) -> None:
    configmap(plane, "red", labels={"colour": "red"})
    configmap(plane, "blue", labels={"colour": "blue"})
    plane.kubectl("delete", "cm", "-l", "colour=red")
    assert get(plane, "cm", "red") is None
    path = "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dblue"
    plane.kubectl("delete", "--raw", path)
    assert get(plane, "cm", "blue") is None
    until(plane, lambda: get(plane, "cm", "kube-root-ca.crt"), "the CA, which is of no selector")


TOPOLOGY = REPOSITORY / "examples" / "node-resource-topology"
WIDGETS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""


def test_custom_objects_own_are_owned_and_go_with_their_namespace(plane: Plane) -> None:
    plane.kubectl("apply", "-f", str(TOPOLOGY / "definition.yaml"), "-f", "-", stdin=WIDGETS)
    for name in ("noderesourcetopologies.topology.node.k8s.io", "widgets.example.com"):
        plane.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=60s")
    plane.kubectl("apply", "-f", str(TOPOLOGY / "topology.yaml"))
    owner = get(plane, "noderesourcetopologies", "node-a")
    reference = {key: owner[key] for key in ("apiVersion", "kind")}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "ownerReferences": [reference]},
    }
    plane.kubectl("create", "-f", "-", stdin=json.dumps(widget))
    uid = get(plane, "widget", "w")["metadata"]["uid"]
    mine = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": uid}
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-widget", "ownerReferences": [mine]}}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(obj))
    plane.kubectl("create", "namespace", "widgets")
    plane.kubectl("create", "-n", "widgets", "-f", "-", stdin=json.dumps({**widget, "metadata": {"name": "free"}}))
    plane.kubectl("delete", "noderesourcetopologies", "node-a")
    until(plane, lambda: get(plane, "cm", "of-widget") is None, "the config map to go with the widget's owner")
    plane.kubectl("delete", "namespace", "widgets", "--timeout=60s")
    assert not get(plane, "widgets", "-A")
