"""What a node's credential is refused: forged requests with a real client certificate, one row a rule."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api_judge import Answer, Client, fault
from tests.support.apiserver_plane import Plane, running_plane

PODS = "/api/v1/namespaces/default/pods"
TOKEN = "/api/v1/namespaces/default/serviceaccounts/bot/token"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CSINODES = "/apis/storage.k8s.io/v1/csinodes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
MIRROR = "kubernetes.io/config.mirror"
JSON, MERGE = "application/json", "application/merge-patch+json"
CONTAINER = {"name": "c", "image": "x"}
CLAIM = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
EXTRA_RIGHTS = [
    {"apiGroups": [""], "resources": ["pods", "pods/status", "pods/eviction", "pods/binding"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["nodes", "persistentvolumeclaims", "persistentvolumeclaims/status"],
     "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["serviceaccounts", "serviceaccounts/token"], "verbs": ["get", "create"]},
    {"apiGroups": ["coordination.k8s.io", "resource.k8s.io", "storage.k8s.io"], "resources": ["*"], "verbs": ["*"]},
]  # fmt: skip
"""Bound to all nodes, so that each row is refused by what it writes: NodeRestriction goes beyond authorization."""


class Scene:
    """A plane with a node n1, whose certificate `node` uses, and pods on it and elsewhere."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.admin, self.node = Client(plane.port, plane.tls()), Client(plane.port, plane.tls("podworker"))
        self.uid = self.make("/api/v1/nodes", {"metadata": {"name": "n1"}, "spec": {"taints": []}})
        self.make("/api/v1/nodes", {"metadata": {"name": "n2"}})
        self.make("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "bot"}})
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        self.make(f"{rbac}/clusterroles", {"metadata": {"name": "nodes-do-all"}, "rules": EXTRA_RIGHTS})
        group = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:nodes"}
        role = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "nodes-do-all"}
        self.make(f"{rbac}/clusterrolebindings", {"metadata": {"name": "nodes"}, "subjects": [group], "roleRef": role})
        token = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}
        self.mine = self.make(PODS, self.pod("mine", "n1", volumes=[token], resourceClaims=[CLAIM]))
        self.theirs = self.make(PODS, self.pod("theirs", "n2", volumes=[token]))
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        self.make(CLAIMS, {"metadata": {"name": "disk"}, "spec": claim})
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
        self.slice = {"driver": "d.example.com", "pool": pool, "devices": []}
        self.make(SLICES, {"metadata": {"name": "theirs"}, "spec": {**self.slice, "nodeName": "n2"}})
        assert self.ask("POST", PODS, self.mirror("mirror")).status == 201

    def pod(self, name: str, node: str, **spec: Any) -> Any:
        return {
            "metadata": {"name": name},
            "spec": {"nodeName": node, "serviceAccountName": "bot", "containers": [CONTAINER], **spec},
        }

    def mirror(self, name: str = "new", **spec: Any) -> Any:
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": self.uid, "controller": True}
        metadata = {"name": name, "annotations": {MIRROR: "x"}, "ownerReferences": [owner]}
        return {"metadata": metadata, "spec": {"nodeName": "n1", "containers": [CONTAINER], **spec}}

    def owned(self, *changes: Any) -> Any:
        body = self.mirror()
        owner = body["metadata"]["ownerReferences"][0]
        body["metadata"]["ownerReferences"] = [{**owner, **change} for change in changes]
        return body

    def make(self, path: str, body: Any) -> str:
        answer = self.admin.ask("POST", path, json.dumps(body).encode(), {"Content-Type": JSON})
        assert answer.status == 201, answer.body
        return str(answer.json["metadata"]["uid"])

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        media = {"PATCH": MERGE}.get(method, JSON)
        sent = None if body is None else json.dumps(body).encode()
        answer = self.node.ask(method, path, sent, {"Content-Type": media})
        assert not fault(method, answer)
        return answer


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """An API server with clients of the administrator and of a node."""
    with running_plane() as plane:
        made = Scene(plane)
        until_bound(made)
        yield made
        made.admin.close()
        made.node.close()


def until_bound(scene: Scene) -> None:
    """The rights every row needs are known to the server."""
    for _ in range(600):
        if scene.ask("GET", CLAIMS).status == 200 and scene.ask("GET", f"{PODS}/mine").status == 200:
            return
    raise AssertionError("the rights of nodes are not there")


def env(kind: str) -> Any:
    return {"containers": [{**CONTAINER, "env": [{"name": "E", "valueFrom": {kind: {"name": "n", "key": "k"}}}]}]}


def volume(**source: Any) -> Any:
    return {"volumes": [{"name": "v", **source}]}


NOT = 'node "n1" can not create pods that reference '
OWNER = 'node "n1" can only create pods with an owner reference set to itself'
REFERENCES = {
    "account": ({"serviceAccountName": "bot"}, NOT + "a service account"),
    "account by its field of old": ({"serviceAccount": "bot"}, NOT + "a service account"),
    "account in both fields": ({"serviceAccountName": "", "serviceAccount": "bot"}, NOT + "a service account"),
    "secret of a volume": (volume(secret={"secretName": "s"}), NOT + "secrets"),
    "secret in a projection": (volume(projected={"sources": [{"secret": {"name": "s"}}]}), NOT + "secrets"),
    "secret in the environment": (env("secretKeyRef"), NOT + "secrets"),
    "secret to pull with": ({"imagePullSecrets": [{"name": "s"}]}, NOT + "secrets"),
    "config map of a volume": (volume(configMap={"name": "c"}), NOT + "configmaps"),
    "config map in the environment": (env("configMapKeyRef"), NOT + "configmaps"),
    "trust bundle": (
        volume(projected={"sources": [{"clusterTrustBundle": {"name": "b", "path": "p"}}]}), NOT + "clustertrustbundles"
    ),
    "volume claim": (volume(persistentVolumeClaim={"claimName": "disk"}), NOT + "persistentvolumeclaims"),
    "resource claim": (
        {"resourceClaims": [{"name": "r", "resourceClaimName": "gpu"}]}, NOT + "resourceclaims"
    ),
    "token in a projection": (
        volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}),
        "a mirror pod may not use ServiceAccountToken volume projections",
    ),
    "another node": ({"nodeName": "n2"}, 'node "n1" can only create pods with spec.nodeName set to itself'),
}  # fmt: skip
OWNERS: dict[str, tuple[list[Any], str]] = {
    "no owner": ([], OWNER),
    "two owners": (
        [{}, {"uid": "another", "controller": False}],
        'node "n1" can only create pods with a single owner reference set to itself',
    ),
    "another's": ([{"name": "n2"}], OWNER),
    "of another kind": ([{"kind": "Pod"}], OWNER),
    "of another version": ([{"apiVersion": "apps/v1"}], OWNER),
    "no controller": (
        [{"controller": False}], 'node "n1" can only create pods with a controller owner reference set to itself'
    ),
    "blocks": (
        [{"blockOwnerDeletion": True}], 'node "n1" must not set blockOwnerDeletion on an owner reference'
    ),
    "of another uid": ([{"uid": "old"}], "node n1 UID mismatch: expected old got "),
}  # fmt: skip


@pytest.mark.parametrize("row", REFERENCES)
def test_mirror_pod_that_refers_to_objects_is_refused(scene: Scene, row: str) -> None:
    spec, wanted = REFERENCES[row]
    answer = scene.ask("POST", PODS, scene.mirror(**spec))
    assert (answer.status, answer.json["message"]) == (403, f'pods "new" is forbidden: {wanted}')


@pytest.mark.parametrize("row", OWNERS)
def test_mirror_pod_of_another_owner_is_refused(scene: Scene, row: str) -> None:
    changes, wanted = OWNERS[row]
    answer = scene.ask("POST", PODS, scene.owned(*changes))
    assert answer.status == 403
    assert answer.json["message"].startswith(f'pods "new" is forbidden: {wanted}')


def test_mirror_pod_has_no_account(scene: Scene) -> None:
    """Not even `default`, so that no token can be asked for it."""
    made = scene.ask("GET", f"{PODS}/mirror").json
    assert {"serviceAccount", "serviceAccountName"}.isdisjoint(made["spec"])
    answer = scene.ask("POST", TOKEN.replace("bot", "default"), bound("mirror", made["metadata"]["uid"]))
    assert answer.status in (403, 404)


def bound(name: str, uid: str, *audiences: str) -> Any:
    reference = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}
    return {"spec": {"boundObjectRef": reference, "audiences": list(audiences)}}


UPDATES_PODS = 'unexpected operation "UPDATE", node "n1" can only create and delete mirror pods'
LEASE = "can only access node lease with the same name as the requesting node"
CSINODE = "can only access CSINode with the same name as the requesting node"
CREATED: dict[str, tuple[str, Any, str]] = {
    "plain pod": (
        PODS,
        {"metadata": {"name": "x"}, "spec": {"nodeName": "n1", "containers": [CONTAINER]}},
        f'pod does not have "{MIRROR}" annotation, node "n1" can only create mirror pods',
    ),
    "eviction elsewhere": (
        f"{PODS}/theirs/eviction", {"metadata": {"name": "theirs"}},
        "node n1 can only evict pods with spec.nodeName set to itself",
    ),
    "binding": (
        f"{PODS}/mine/binding", {"metadata": {"name": "mine"}, "target": {"name": "n1"}},
        "unexpected pod subresource \"binding\", only 'status' and 'eviction' are allowed",
    ),
    "another node": (
        "/api/v1/nodes", {"metadata": {"name": "n3"}}, 'node "n1" is not allowed to modify node "n3"'
    ),
    "lease elsewhere": (
        LEASES.format("default"), {"metadata": {"name": "n1"}, "spec": {"leaseDurationSeconds": 1}},
        'can only access leases in the "kube-node-lease" system namespace',
    ),
    "lease of another": (
        LEASES.format("kube-node-lease"), {"metadata": {"name": "n2"}, "spec": {"leaseDurationSeconds": 1}}, LEASE
    ),
    "CSINode of another": (CSINODES, {"metadata": {"name": "n2"}, "spec": {"drivers": []}}, CSINODE),
    "volume claim": (
        CLAIMS, {"metadata": {"name": "new"}, "spec": {"accessModes": ["ReadWriteOnce"]}}, "may only update PVC status"
    ),
    "token of nothing": (TOKEN, {"spec": {}}, "node requested token not bound to a pod"),
    "token of a secret": (
        TOKEN, {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s"}}},
        "node requested token not bound to a pod",
    ),
    "token without a uid": (TOKEN, bound("mine", ""), "node requested token with a pod binding without a uid"),
    "token of a pod that was": (
        TOKEN, bound("mine", "old"),
        "the UID in the bound object reference (old) does not match the UID in record. "
        "The object might have been deleted and then recreated",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", CREATED)
def test_creation_beyond_itself_is_refused(scene: Scene, row: str) -> None:
    path, body, wanted = CREATED[row]
    answer = scene.ask("POST", path, body)
    assert answer.status == 403, answer.body
    assert answer.json["message"].endswith(f"is forbidden: {wanted}")


def test_slice_of_another_node_is_refused(scene: Scene) -> None:
    body = {"metadata": {"name": "new"}, "spec": {**scene.slice, "nodeName": "n2"}}
    told = "ResourceSlice with the same NodeName as the requesting node"
    assert scene.ask("POST", SLICES, body).json["message"].endswith(f"can only create {told}")
    assert scene.ask("DELETE", f"{SLICES}/theirs").json["message"].endswith(f"can only delete {told}")
    assert scene.ask("DELETE", SLICES).json["message"].endswith(f"can only delete {told}")


def test_tokens_are_of_own_pods_and_their_audiences(scene: Scene) -> None:
    asked = scene.ask("POST", TOKEN, bound("theirs", scene.theirs, "vault"))
    assert asked.json["message"].endswith("node requested token bound to a pod scheduled on a different node")
    asked = scene.ask("POST", TOKEN, bound("mine", scene.mine, "vault", "bank"))
    assert asked.json["message"].endswith("node may only request 0 or 1 audiences")
    asked = scene.ask("POST", TOKEN, bound("mine", scene.mine, "bank"))
    unfit = "system:node:n1 is not authorized to request tokens for this audience"
    assert asked.json["message"].endswith(f'audience "bank" not found in pod spec volume, {unfit}')
    assert scene.ask("POST", TOKEN, bound("mine", scene.mine, "vault")).status == 201


LABELS = "is not allowed to modify labels: "
CHANGED: dict[str, tuple[str, Any, str]] = {
    "spec of a pod": (f"{PODS}/mirror", {"spec": {"activeDeadlineSeconds": 5}}, UPDATES_PODS),
    "status elsewhere": (
        f"{PODS}/theirs/status", {"status": {"phase": "Failed"}},
        'node "n1" can only update pod status for pods with spec.nodeName set to itself',
    ),
    "labels by status": (
        f"{PODS}/mine/status", {"metadata": {"labels": {"app": "bank"}}},
        'node "n1" cannot update labels through pod status',
    ),
    "claim statuses": (
        f"{PODS}/mine/status",
        {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "theirs"}]}},
        'node "n1" cannot update resource claim statues',
    ),
    "claim statuses that are invalid": (
        f"{PODS}/mine/status",
        {"status": {"resourceClaimStatuses": [{"name": "nowhere", "resourceClaimName": "A/b"}]}},
        'node "n1" cannot update resource claim statues',
    ),
    "claim of extended resources": (
        f"{PODS}/mine/status",
        {"status": {"extendedResourceClaimStatus": {"resourceClaimName": "theirs", "requestMappings": []}}},
        'node "n1" cannot update extended resource claim status',
    ),
    "another node": ("/api/v1/nodes/n2", {"spec": {}}, 'node "n1" is not allowed to modify node "n2"'),
    "taints": (
        "/api/v1/nodes/n1", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
        'node "n1" is not allowed to modify taints',
    ),
    "owners": (
        "/api/v1/nodes/n1",
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n2", "uid": "u"}]}},
        'node "n1" is not allowed to modify ownerReferences',
    ),
    "source of its configuration": (
        "/api/v1/nodes/n1", {"spec": {"configSource": {"configMap": {"name": "c", "namespace": "kube-system"}}}},
        'node "n1" is not allowed to update configSource to a new non-nil configSource',
    ),
    "restricted label": (
        "/api/v1/nodes/n1", {"metadata": {"labels": {"node-restriction.kubernetes.io/x": "1"}}},
        LABELS + "node-restriction.kubernetes.io/x",
    ),
    "role label": (
        "/api/v1/nodes/n1/status", {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
        LABELS + "node-role.kubernetes.io/control-plane",
    ),
    "volume claim": (f"{CLAIMS}/disk", {"metadata": {"labels": {"a": "b"}}}, "may only update PVC status"),
    "phase of a volume claim": (
        f"{CLAIMS}/disk/status", {"status": {"phase": "Bound"}},
        'node "n1" is not allowed to update fields other than status.quantity and status.conditions',
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", CHANGED)
def test_change_beyond_itself_is_refused(scene: Scene, row: str) -> None:
    path, body, wanted = CHANGED[row]
    answer = scene.ask("PATCH", path, body)
    assert answer.status == 403, answer.body
    assert answer.json["message"].endswith(f"is forbidden: {wanted}")


def test_node_deletes_only_pods_of_its_own(scene: Scene) -> None:
    told = 'pods "theirs" is forbidden: node "n1" can only delete pods with spec.nodeName set to itself'
    assert scene.ask("DELETE", f"{PODS}/theirs").json["message"] == told
    assert scene.ask("DELETE", f"{PODS}?fieldSelector=metadata.name%3Dtheirs").json["message"] == told


def test_node_does_what_it_must(scene: Scene) -> None:
    condition = {"type": "FileSystemResizePending", "status": "True"}
    for path, body in (
        (f"{PODS}/mine/status", {"status": {"phase": "Running"}}),
        ("/api/v1/nodes/n1/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        ("/api/v1/nodes/n1", {"metadata": {"labels": {"kubernetes.io/hostname": "n1", "example.com/x": "1"}}}),
        (f"{CLAIMS}/disk/status", {"status": {"conditions": [condition]}}),
    ):
        assert scene.ask("PATCH", path, body).status == 200
    spec = {"holderIdentity": "n1", "leaseDurationSeconds": 40}
    lease = {"metadata": {"name": "n1"}, "spec": spec}
    assert scene.ask("POST", LEASES.format("kube-node-lease"), lease).status == 201
    assert scene.ask("POST", CSINODES, {"metadata": {"name": "n1"}, "spec": {"drivers": []}}).status == 201
    own = {"metadata": {"name": "own"}, "spec": {**scene.slice, "nodeName": "n1"}}
    assert scene.ask("POST", SLICES, own).status == 201
    assert scene.ask("DELETE", f"{SLICES}/own").status == 200


@pytest.mark.parametrize("below", ["", "/status"])
@pytest.mark.parametrize(
    ("pod", "value", "wanted"),
    [
        ("mirror", None, "may not remove or update mirror pod annotation"),
        ("mirror", "other", "may not remove or update mirror pod annotation"),
        ("mine", "x", "may not add mirror pod annotation"),
    ],
)
def test_mirror_annotation_is_immutable_for_everybody(
    scene: Scene, pod: str, value: str | None, wanted: str, below: str
) -> None:
    body = json.dumps({"metadata": {"annotations": {MIRROR: value}}}).encode()
    answer = scene.admin.ask("PATCH", f"{PODS}/{pod}{below}", body, {"Content-Type": MERGE})
    assert answer.status == 422
    assert f"metadata.annotations[{MIRROR}]: Forbidden: {wanted}" in answer.json["message"]


def test_mirror_pod_of_an_administrator_refers_to_nothing_either(scene: Scene) -> None:
    for spec, wanted in (
        ({"serviceAccount": "bot"}, "a mirror pod may not reference service accounts"),
        ({"imagePullSecrets": [{"name": "s"}]}, "a mirror pod may not reference secrets"),
    ):
        body = json.dumps(scene.mirror(**spec)).encode()
        answer = scene.admin.ask("POST", PODS, body, {"Content-Type": JSON})
        assert (answer.status, answer.json["message"]) == (403, f'pods "new" is forbidden: {wanted}')
    unbound = scene.mirror()
    del unbound["spec"]["nodeName"]
    answer = scene.admin.ask("POST", PODS, json.dumps(unbound).encode(), {"Content-Type": JSON})
    assert answer.status == 422
    assert "must set spec.nodeName if mirror pod annotation is set" in answer.json["message"]
