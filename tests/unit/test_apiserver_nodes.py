"""What the identity of a node may write, and which secrets and configmaps its pods let it read."""

from typing import Any

import msgspec
import pytest

from actors.apiserver.admission.nodes import create_fault, node_may_label, update_fault
from actors.apiserver.authorization.attributes import Attributes
from actors.apiserver.authorization.node_graph import NodeGraph, references
from actors.apiserver.objects.paths import Obj
from actors.apiserver.replica.stored import Stored

OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": True}
NODES = {"n1": {"metadata": {"name": "n1", "uid": "u1"}}}


def wants(verb: str, resource: str, sub: str = "") -> Attributes:
    return Attributes(verb, "/x", resource=resource, subresource=sub)


def mirror(spec: Obj | None = None, **metadata: Any) -> Obj:
    annotations = {"kubernetes.io/config.mirror": "x"}
    return {
        "metadata": {"name": "m", "annotations": annotations, "ownerReferences": [OWNER], **metadata},
        "spec": {"nodeName": "n1", **(spec or {})},
    }


VOLUME = {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}


@pytest.mark.parametrize(
    ("resource", "body", "fault"),
    [
        ("nodes", {"metadata": {"name": "n1"}}, ""),
        ("nodes", {"metadata": {"name": "n2"}}, 'is not allowed to modify node "n2"'),
        ("nodes", {"metadata": {"name": "n1", "labels": {"a.k8s.io/x": "1", "mine.example/x": "1"}}}, ": a.k8s.io/x"),
        ("leases", {"metadata": {"name": "n2"}}, "not allowed to modify lease"),
        ("pods", mirror(), ""),
        ("pods", mirror({"nodeName": "n2"}), "spec.nodeName set to itself"),
        ("pods", mirror(annotations={}), "can only create mirror pods"),
        ("pods", mirror(ownerReferences=[]), "owner reference set to itself"),
        ("pods", mirror(ownerReferences=[OWNER, OWNER]), "owner reference set to itself"),
        ("pods", mirror(ownerReferences=[{**OWNER, "name": "n2"}]), "owner reference set to itself"),
        ("pods", mirror(ownerReferences=[{**OWNER, "blockOwnerDeletion": True}]), "blockOwnerDeletion"),
        ("pods", mirror(ownerReferences=[{**OWNER, "uid": "old"}]), "UID mismatch: expected u1 got old"),
        ("pods", mirror({"serviceAccountName": "admin"}), "reference a service account"),
        ("pods", mirror(VOLUME), "reference secrets"),
        ("resourceslices", {"metadata": {}, "spec": {"nodeName": "n2"}}, "spec.nodeName set to itself"),
        ("events", {"metadata": {"name": "e"}}, ""),
    ],
)
def test_what_a_node_may_create(resource: str, body: Obj, fault: str) -> None:
    found = create_fault("n1", wants("create", resource), body, NODES.get)
    assert fault in found if fault else found == ""


def test_what_a_node_may_change() -> None:
    node = {"metadata": {"name": "n1", "labels": {"a": "1", "x.k8s.io/y": "2"}}, "spec": {"taints": [{"key": "t"}]}}
    update = wants("update", "nodes")
    assert update_fault("n1", update, {**node, "status": {"x": 1}}, node) == ""
    relabelled = {**node, "metadata": {"name": "n1", "labels": {"a": "2", "x.k8s.io/y": "2"}}}
    assert update_fault("n1", update, relabelled, node) == ""
    stripped = {**node, "metadata": {"name": "n1", "labels": {"a": "1"}}}
    assert update_fault("n1", update, stripped, node).endswith("is not allowed to modify labels: x.k8s.io/y")
    assert "taints" in update_fault("n1", update, {**node, "spec": {}}, node)
    assert "ownerReferences" in update_fault("n1", update, mirror(), {**node, "spec": mirror()["spec"]})
    status = wants("update", "pods", "status")
    assert update_fault("n1", status, {**mirror(), "status": {"phase": "Running"}}, mirror()) == ""
    assert "labels" in update_fault("n1", status, mirror(labels={"app": "other"}), mirror())
    claimed = {**mirror(), "status": {"resourceClaimStatuses": [{"name": "c"}]}}
    assert "claim" in update_fault("n1", status, claimed, mirror())
    slice_of = {"spec": {"nodeName": "n2"}}
    assert "itself" in update_fault("n1", wants("update", "resourceslices"), slice_of, {"spec": {"nodeName": "n1"}})


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("plain", True),
        ("example.com/x", True),
        ("kubernetes.io/hostname", True),
        ("topology.kubernetes.io/zone", True),
        ("a.node.kubernetes.io/x", True),
        ("kubelet.kubernetes.io/x", True),
        ("kubernetes.io/else", False),
        ("node-role.kubernetes.io/control-plane", False),
        ("node-restriction.kubernetes.io/x", False),
        ("fakekubernetes.io/x", True),
    ],
)
def test_labels_of_a_node(label: str, allowed: bool) -> None:
    assert node_may_label(label) is allowed


SPEC: Obj = {
    "nodeName": "n1",
    "serviceAccountName": "bot",
    "imagePullSecrets": [{"name": "pull"}],
    "volumes": [
        {"secret": {"secretName": "vol"}},
        {"configMap": {"name": "cfg"}},
        {"projected": {"sources": [{"secret": {"name": "proj"}}, {"configMap": {"name": "projcfg"}}]}},
        {"csi": {"nodePublishSecretRef": {"name": "csi"}}},
    ],
    "initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "env"}}}]}],
    "containers": [{"envFrom": [{"secretRef": {"name": "from"}}, {"configMapRef": {"name": "fromcfg"}}]}],
    "resourceClaims": [{"resourceClaimName": "claim"}],
}


def test_references_of_a_pod() -> None:
    pod = {"spec": SPEC, "status": {"resourceClaimStatuses": [{"resourceClaimName": "made"}]}}
    assert references(pod, "secrets") == {"pull", "vol", "proj", "csi", "env", "from"}
    assert references(pod, "configmaps") == {"cfg", "projcfg", "fromcfg"}
    assert references(pod, "serviceaccounts") == {"bot"}
    assert references(pod, "resourceclaims") == {"claim", "made"}
    odd = {"spec": {"volumes": [3, {"secret": 1}], "containers": "x", "imagePullSecrets": None}}
    assert references(odd, "secrets") == references(odd, "configmaps") == set()


def test_the_graph_follows_the_pods() -> None:
    pods: dict[str, Stored] = {}
    graph = NodeGraph(lambda space: (p for key, p in pods.items() if key.startswith(f"{space}/")), pods.get)

    def put(name: str, node: str) -> None:
        raw = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": {**SPEC, "nodeName": node}}
        pods[f"ns/{name}"] = Stored(f"ns/{name}", 1, msgspec.json.encode(raw))

    assert not graph.uses("n1", "secrets", "ns", "vol")
    put("a", "n1")
    assert all(graph.uses("n1", "secrets", "ns", "vol") for _time in range(2))
    assert not graph.uses("n2", "secrets", "ns", "vol")
    assert not graph.uses("n1", "secrets", "other", "vol")
    assert not graph.uses("n1", "secrets", "ns", "")
    assert not graph.uses("n1", "configmaps", "ns", "vol")
    put("a", "n2")
    assert not graph.uses("n1", "secrets", "ns", "vol")
    put("b", "n1")
    assert graph.uses("n1", "secrets", "ns", "vol")
    del pods["ns/b"]
    assert not graph.uses("n1", "secrets", "ns", "vol")
