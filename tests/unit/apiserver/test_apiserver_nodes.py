"""What the identity of a node may write, and which secrets and configmaps its pods let it read."""

from typing import Any

import msgspec
import pytest

from actors.apiserver.api.errors import NotFound
from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.stored import Stored
from actors.apiserver.authorization.node_graph import NodeGraph, references
from actors.apiserver.writes.admission.nodes import NodeWrite, node_fault, node_may_label
from protocols.kube.meta import Object

OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": True}
NODES = {"n1": {"metadata": {"name": "n1", "uid": "u1"}}}


def write(
    operation: str, resource: str, new: Object, old: Object, sub: str = "", group: str = "", node: str = "n1"
) -> NodeWrite:
    name = str((new or old).get("metadata", {}).get("name", ""))
    wanted = Attributes(operation.lower(), "/x", group, resource, sub, "", name)
    return NodeWrite(node, operation, wanted, new, old, NODES.get)


def mirror(spec: Object | None = None, **metadata: Any) -> Object:
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
        ("nodes", {"metadata": {"name": "n1"}, "spec": {"configSource": {}}}, "non-nil configSource"),
        ("pods", mirror(), ""),
        ("pods", mirror({"nodeName": "n2"}), "spec.nodeName set to itself"),
        ("pods", mirror(annotations={}), "can only create mirror pods"),
        ("pods", mirror(ownerReferences=[]), "owner reference set to itself"),
        ("pods", mirror(ownerReferences=[{**OWNER, "uid": "old"}]), "UID mismatch: expected old got u1"),
        ("pods", mirror({"serviceAccount": "admin"}), "reference a service account"),
        ("pods", mirror(VOLUME), "reference secrets"),
        ("events", {"metadata": {"name": "e"}}, ""),
    ],
)
def test_node_creating_beyond_itself_is_refused(resource: str, body: Object, fault: str) -> None:
    found = node_fault(write("CREATE", resource, body, {}))
    assert fault in found if fault else found == ""


def test_node_without_a_name_writes_nothing() -> None:
    assert node_fault(write("CREATE", "events", {}, {}, node="")) == "could not determine node from user"


def test_mirror_pod_before_its_node_is_refused() -> None:
    orphan = mirror({"nodeName": "n9"}, ownerReferences=[{**OWNER, "name": "n9"}])
    with pytest.raises(NotFound, match='node "n9" not found'):
        node_fault(write("CREATE", "pods", orphan, {}, node="n9"))


def test_node_changing_what_steers_pods_is_refused() -> None:
    metadata = {"name": "n1", "labels": {"a": "1", "x.k8s.io/y": "2"}}
    node = {"metadata": metadata, "spec": {"taints": [{"key": "t"}]}}

    def changed(new: Object) -> str:
        return node_fault(write("UPDATE", "nodes", {**node, **new}, node))

    assert changed({"status": {"x": 1}}) == ""
    assert changed({"metadata": {"name": "n1", "labels": {"a": "2", "x.k8s.io/y": "2"}}}) == ""
    stripped = changed({"metadata": {"name": "n1", "labels": {"a": "1"}}})
    assert stripped == "is not allowed to modify labels: x.k8s.io/y"
    assert "taints" in changed({"spec": {}})
    owned = changed({"metadata": {**metadata, "ownerReferences": [OWNER]}})
    assert "ownerReferences" in owned


def test_node_writing_pod_status_beyond_conditions_is_refused() -> None:
    def changed(new: Object) -> str:
        return node_fault(write("UPDATE", "pods", new, mirror(), "status"))

    assert changed({**mirror(), "status": {"phase": "Running"}}) == ""
    assert "labels" in changed(mirror(labels={"app": "other"}))
    assert "claim" in changed({**mirror(), "status": {"resourceClaimStatuses": [{"name": "c"}]}})
    extended = {"extendedResourceClaimStatus": {"resourceClaimName": "c"}}
    assert "extended resource claim" in changed({**mirror(), "status": extended})


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


SPEC: Object = {
    "nodeName": "n1",
    "serviceAccountName": "bot",
    "imagePullSecrets": [{"name": "pull"}],
    "volumes": [
        {"secret": {"secretName": "vol"}},
        {"configMap": {"name": "cfg"}},
        {"projected": {"sources": [{"secret": {"name": "proj"}}, {"configMap": {"name": "projcfg"}}]}},
        {"csi": {"nodePublishSecretRef": {"name": "csi"}}},
        {"persistentVolumeClaim": {"claimName": "disk"}},
        {"name": "scratch", "ephemeral": {}},
    ],
    "initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "env"}}}]}],
    "containers": [{"envFrom": [{"secretRef": {"name": "from"}}, {"configMapRef": {"name": "fromcfg"}}]}],
    "resourceClaims": [{"resourceClaimName": "claim"}],
}


def test_references_of_a_pod() -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": SPEC,
        "status": {"resourceClaimStatuses": [{"resourceClaimName": "made"}]},
    }
    assert references(pod, "secrets") == {"pull", "vol", "proj", "csi", "env", "from"}
    assert references(pod, "configmaps") == {"cfg", "projcfg", "fromcfg"}
    assert references(pod, "serviceaccounts") == {"bot"}
    assert references(pod, "persistentvolumeclaims") == {"disk", "p-scratch"}
    assert references(pod, "resourceclaims") == {"claim", "made"}
    odd = {"spec": {"volumes": [3, {"secret": 1}], "containers": "x", "imagePullSecrets": None}}
    assert references(odd, "secrets") == references(odd, "configmaps") == set()


def test_the_graph_follows_the_pods() -> None:
    pods: dict[str, Stored] = {}
    graph = NodeGraph(lambda space: (p for key, p in pods.items() if key.startswith(f"{space}/")), pods.get)

    def put(name: str, node: str, annotations: Object | None = None) -> None:
        metadata = {"name": name, "annotations": annotations or {}}
        raw = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {**SPEC, "nodeName": node}}
        pods[f"ns/{name}"] = Stored(f"ns/{name}", 1, msgspec.json.encode(raw))

    assert not graph.uses("n1", "secrets", "ns", "vol")
    put("a", "n1")
    assert all(graph.uses("n1", "secrets", "ns", "vol") for _time in range(2))
    assert graph.uses("n1", "persistentvolumeclaims", "ns", "a-scratch")
    assert not graph.uses("n2", "secrets", "ns", "vol")
    assert not graph.uses("n1", "secrets", "other", "vol")
    assert not graph.uses("n1", "secrets", "ns", "")
    assert not graph.uses("n1", "configmaps", "ns", "vol")
    put("a", "n2")
    assert not graph.uses("n1", "secrets", "ns", "vol")
    put("b", "n1")
    assert graph.uses("n1", "secrets", "ns", "vol")
    put("b", "n1", {"kubernetes.io/config.mirror": "x"})
    assert not graph.uses("n1", "secrets", "ns", "vol")
    del pods["ns/b"]
    assert not graph.uses("n1", "secrets", "ns", "vol")


@pytest.mark.parametrize(
    ("source", "namespace"),
    [
        ({"csi": {"nodeStageSecretRef": {"name": "key", "namespace": "far"}}}, "far"),
        ({"csi": {"nodePublishSecretRef": {"name": "key", "namespace": "far"}}}, "far"),
        ({"azureFile": {"secretName": "key", "secretNamespace": "far"}}, "far"),
        ({"azureFile": {"secretName": "key"}}, "ns"),
        ({"rbd": {"secretRef": {"name": "key"}}}, "ns"),
        ({"csi": {"controllerPublishSecretRef": {"name": "key", "namespace": "far"}}}, ""),
    ],
)
def test_the_secrets_of_a_volume_are_those_of_its_pods_node(source: Object, namespace: str) -> None:
    claim = {"namespace": "ns", "name": "disk"}
    volume = Stored("v", 1, msgspec.json.encode({"spec": {**source, "claimRef": claim}}))
    pod = Stored("ns/a", 1, msgspec.json.encode({"metadata": {"name": "a"}, "spec": {**SPEC, "nodeName": "n1"}}))
    graph = NodeGraph(lambda space: [pod] if space == "ns" else [], lambda _key: None, lambda: [volume])
    assert [space for space in ("ns", "far") if graph.uses("n1", "secrets", space, "key")] == [namespace] * bool(
        namespace
    )
    assert not graph.uses("n2", "secrets", namespace, "key")
