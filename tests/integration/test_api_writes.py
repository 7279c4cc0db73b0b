"""Writes that Kubernetes' own answers hold the API server to: scales, lost updates, owners, generated fields."""

import base64
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from protocols.kube.meta import Object
from tests.support.api_judge import Answer, Client
from tests.support.apiserver_plane import Plane
from tests.support.store_lab import until

APPS = "/apis/apps/v1/namespaces/default"
LABELS = {"app": "x"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SETS = f"{APPS}/replicasets"
MEDIA = {"PUT": "application/json", "POST": "application/json", "PATCH": "application/merge-patch+json"}
APPLY = "application/apply-patch+yaml"


@pytest.fixture
def client(plane: Plane) -> Iterator[Client]:
    made = Client(plane.port, plane.tls())
    yield made
    made.close()


def send(client: Client, method: str, path: str, body: Any = None, media: str = "") -> Answer:
    raw = None if body is None else json.dumps(body).encode()
    return client.ask(method, path, raw, {"Content-Type": media or MEDIA.get(method, "")})


def created(client: Client, path: str, name: str, **parts: Any) -> Object:
    answer = send(client, "POST", path, {"metadata": {"name": name}, **parts})
    assert answer.status == 201, answer.body
    made: Object = answer.json
    return made


def replica_set(client: Client, name: str) -> str:
    spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": TEMPLATE}
    created(client, SETS, name, spec=spec)
    return f"{SETS}/{name}"


SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 3}}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "name must be provided"),
        ({**SCALE, "metadata": {}}, "name must be provided"),
        ({**SCALE, "metadata": {"name": "other"}}, "does not match the name on the URL"),
        ({**SCALE, "metadata": {"name": "bad", "namespace": "kube-system"}}, "does not match the namespace sent"),
    ],
    ids=["empty", "no-name", "other-name", "other-namespace"],
)
def test_put_scale_of_no_or_another_object_changes_nothing(client: Client, body: Object, text: str) -> None:
    path = f"{SETS}/bad"
    if client.ask("GET", path).status == 404:
        replica_set(client, "bad")
    answer = send(client, "PUT", f"{path}/scale", body)
    assert (answer.status, text in answer.json["message"]) == (400, True), answer.body
    assert client.ask("GET", path).json["spec"]["replicas"] == 2


def test_scale_below_zero_is_rejected_in_upstreams_words(client: Client) -> None:
    path = f"{SETS}/below"
    replica_set(client, "below")
    answer = send(client, "PATCH", f"{path}/scale", {"spec": {"replicas": -1}})
    text = 'Scale.autoscaling "below" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
    assert (answer.status, answer.json["message"]) == (422, text)


def entries(client: Client, path: str) -> list[tuple[str, str, str, bool]]:
    """Return manager, operation, subresource and whether it owns the replicas, of each entry."""
    return [
        (each["manager"], each["operation"], each.get("subresource", ""), "f:replicas" in each["fieldsV1"]["f:spec"])
        for each in client.ask("GET", path).json["metadata"]["managedFields"]
    ]


def test_scale_beside_an_applier_owns_the_replicas(client: Client) -> None:
    path = f"{SETS}/owned"
    spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": TEMPLATE}
    config = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "owned"}, "spec": spec}
    assert send(client, "PATCH", f"{path}?fieldManager=one", config, APPLY).status == 201
    assert send(client, "PATCH", f"{path}/scale?fieldManager=hpa", {"spec": {"replicas": 5}}).status == 200
    assert entries(client, path) == [("one", "Apply", "", False), ("hpa", "Update", "scale", True)]
    scale = {**SCALE, "metadata": {"name": "owned"}, "spec": {"replicas": 7}}
    refused = send(client, "PATCH", f"{path}/scale?fieldManager=ssa", scale, APPLY)
    assert (refused.status, refused.json["details"]["causes"]) == (
        409,
        [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "hpa" with subresource "scale" using autoscaling/v1',
                "field": ".spec.replicas",
            }
        ],
    )
    taken = send(client, "PATCH", f"{path}/scale?fieldManager=ssa&force=true", scale, APPLY)
    assert (taken.status, taken.json["spec"]) == (200, {"replicas": 7})
    assert entries(client, path) == [("ssa", "Apply", "scale", True), ("one", "Apply", "", False)]
    assert client.ask("GET", path).json["spec"]["replicas"] == 7
    typo = {**scale, "spec": {"replica": 1}}
    assert send(client, "PATCH", f"{path}/scale?fieldManager=ssa", typo, APPLY).status == 400


def test_scale_is_shown_as_a_table(client: Client) -> None:
    path = replica_set(client, "shown")
    table = client.ask("GET", f"{path}/scale", None, {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert table["rows"][0]["cells"][:3] == ["shown", 2, 0]


POLICY_SPEC = {
    "failurePolicy": "Fail",
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": ["x.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}
        ]
    },
}
MUTATING = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}
BINDING_SPEC = {"policyName": "lost"}
ADMISSION = "/apis/admissionregistration.k8s.io/v1/"
STORAGE = "/apis/storage.k8s.io/v1/"
VERSIONED: dict[str, Object] = {
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {"spec": {"maxUnavailable": 1}},
    f"{STORAGE}volumeattachments": {
        "spec": {"attacher": "a.example.com", "nodeName": "n", "source": {"persistentVolumeName": "p"}}
    },
    f"{STORAGE}namespaces/default/csistoragecapacities": {"storageClassName": "fast"},
    f"{ADMISSION}validatingwebhookconfigurations": {},
    f"{ADMISSION}mutatingwebhookconfigurations": {},
    f"{ADMISSION}validatingadmissionpolicies": {"spec": {**POLICY_SPEC, "validations": [{"expression": "true"}]}},
    f"{ADMISSION}mutatingadmissionpolicies": {
        "spec": {**POLICY_SPEC, "reinvocationPolicy": "Never", "mutations": [MUTATING]}
    },
    f"{ADMISSION}validatingadmissionpolicybindings": {"spec": {**BINDING_SPEC, "validationActions": ["Deny"]}},
    f"{ADMISSION}mutatingadmissionpolicybindings": {"spec": BINDING_SPEC},
}
"""Kinds whose PUT needs a resourceVersion, else the update of another is lost."""


@pytest.mark.parametrize("path", VERSIONED, ids=lambda path: path.rpartition("/")[2])
def test_put_without_resource_version_is_no_update(client: Client, path: str) -> None:
    read = created(client, path, "lost", **VERSIONED[path])
    blind = {**read, "metadata": {"name": "lost", "labels": {"a": "b"}}}
    answer = send(client, "PUT", f"{path}/lost", blind)
    causes = answer.json["details"]["causes"]
    assert (answer.status, [cause["field"] for cause in causes]) == (422, ["metadata.resourceVersion"]), answer.body
    seen = {**blind, "metadata": {**blind["metadata"], "resourceVersion": read["metadata"]["resourceVersion"]}}
    assert send(client, "PUT", f"{path}/lost", seen).status == 200


def owned(made: Object, manager: str, subresource: str = "") -> Object:
    """Return what a manager owns."""
    return next(
        (
            each["fieldsV1"]
            for each in made["metadata"].get("managedFields", [])
            if (each["manager"], each.get("subresource", "")) == (manager, subresource)
        ),
        {},
    )


BATCH, MINE = "/apis/batch/v1/namespaces/default/jobs", "fieldManager=me"
ONCE = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}


def test_defaults_are_owned_by_their_author(client: Client) -> None:
    job = created(client, f"{BATCH}?{MINE}", "defaulted", spec={"template": ONCE})
    assert (job["spec"]["manualSelector"], owned(job, "me")["f:spec"]["f:manualSelector"]) == (False, {})
    spec = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
    daemons = created(client, f"{APPS}/daemonsets?{MINE}", "defaulted", spec=spec)
    number = "deprecated.daemonset.template.generation"
    assert daemons["metadata"]["annotations"][number] == "1"
    assert f"f:{number}" in owned(daemons, "me")["f:metadata"]["f:annotations"]


def test_job_keeps_its_generated_labels(client: Client) -> None:
    job = created(client, BATCH, "labelled", spec={"template": ONCE, "suspend": True})
    del job["spec"]["template"]["metadata"]["labels"]["job-name"]
    answer = send(client, "PUT", f"{BATCH}/labelled", job)
    causes = {cause["field"] for cause in answer.json["details"]["causes"]}
    assert (answer.status, "spec.template.metadata.labels[job-name]" in causes) == (422, True), answer.body


def signing_request() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()


def test_signing_request_fields_that_never_change_have_no_owner(client: Client) -> None:
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    spec = {"request": signing_request(), "signerName": "example.com/s", "usages": ["client auth"]}
    assert "managedFields" not in created(client, path, "csr", spec=spec)["metadata"]
    condition = {"type": "Failed", "status": "True", "reason": "R", "message": "m"}
    answer = send(client, "PATCH", f"{path}/csr/status?{MINE}", {"status": {"conditions": [condition]}})
    assert (answer.status, owned(answer.json, "me", "status")) == (200, {}), answer.body


def test_server_owns_the_status_that_it_writes(client: Client) -> None:
    quotas = "/api/v1/namespaces/charged/resourcequotas"
    created(client, "/api/v1/namespaces", "charged")
    created(client, quotas, "q", spec={"hard": {"configmaps": "5"}})
    status = {"status": {"hard": {"configmaps": "5"}, "used": {"configmaps": "0"}}}
    assert send(client, "PATCH", f"{quotas}/q/status", status).status == 200
    until("the quota is charged", lambda: charged(client, quotas))
    used: Object = {"f:status": {"f:used": {"f:configmaps": {}}}}
    assert owned(client.ask("GET", f"{quotas}/q").json, "kube-apiserver", "status") == used


def charged(client: Client, quotas: str) -> bool:
    """Create an object; return True if the quota, which replicas learn of later, counts one."""
    send(client, "POST", "/api/v1/namespaces/charged/configmaps", {"metadata": {"generateName": "c"}})
    return bool(client.ask("GET", f"{quotas}/q").json["status"]["used"]["configmaps"] != "0")


def test_mutating_policy_has_no_operation_without_object(client: Client) -> None:
    rule = {**POLICY_SPEC["matchConstraints"]["resourceRules"][0], "operations": ["DELETE"]}  # type: ignore[index]
    spec = {"matchConstraints": {"resourceRules": [rule]}, "reinvocationPolicy": "Never", "mutations": [MUTATING]}
    answer = send(
        client, "POST", f"{ADMISSION}mutatingadmissionpolicies", {"metadata": {"name": "delete"}, "spec": spec}
    )
    causes = [cause["field"] for cause in answer.json["details"]["causes"]]
    assert (answer.status, causes) == (422, ["spec.matchConstraints.resourceRules.operations"])


def test_storage_objects_name_valid_classes_and_drivers(client: Client) -> None:
    bad = {"metadata": {"name": "bad"}, "storageClassName": "Fast", "nodeTopology": {"matchLabels": {"-": "a"}}}
    answer = send(client, "POST", f"{STORAGE}namespaces/default/csistoragecapacities", bad)
    assert {cause["field"] for cause in answer.json["details"]["causes"]} == {
        "storageClassName",
        "nodeTopology.matchLabels",
    }
    attachment = {"metadata": {"name": "bad"}, "spec": {"attacher": "A", "nodeName": "N", "source": {}}}
    answer = send(client, "POST", f"{STORAGE}volumeattachments", attachment)
    assert {cause["field"] for cause in answer.json["details"]["causes"]} == {
        "spec.attacher",
        "spec.nodeName",
        "spec.source",
    }


def test_namespace_status_keeps_metadata(client: Client) -> None:
    created(client, "/api/v1/namespaces", "labelled")
    patch = {"metadata": {"annotations": {"a": "b"}}, "status": {"phase": "Active"}}
    answer = send(client, "PATCH", "/api/v1/namespaces/labelled/status", patch)
    assert (answer.status, answer.json["metadata"]["annotations"]) == (200, {"a": "b"}), answer.body


def test_revision_data_is_answered_as_go_writes_it(client: Client) -> None:
    path, data = f"{APPS}/controllerrevisions", b'{"a":1,"z":"\\u003c\\u0026\\u003e"}'
    raw = b'{"metadata":{"name":"bytes"},"revision":1,"data":%b}' % data
    assert client.ask("POST", path, raw, {"Content-Type": "application/json"}).status == 201
    assert b'"data":' + data in client.ask("GET", f"{path}/bytes").body
    protobuf = {"Accept": "application/vnd.kubernetes.protobuf"}
    assert data in client.ask("GET", f"{path}/bytes", None, protobuf).body


def test_watch_gets_a_bookmark_before_its_end_though_nothing_changed(plane: Plane, client: Client) -> None:
    path = "/api/v1/namespaces/kube-public/limitranges"
    version = client.ask("GET", path).json["metadata"]["resourceVersion"]
    query = f"watch=true&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion={version}"
    with urllib.request.urlopen(f"{plane.url}{path}?{query}", timeout=30, context=plane.tls()) as answer:
        events = [json.loads(line) for line in answer]
    assert events[0]["type"] == "BOOKMARK"
    assert int(events[0]["object"]["metadata"]["resourceVersion"]) >= int(version)


STORED: dict[str, tuple[str, Object, Object]] = {
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers": (
        "web",
        {"spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}},
        {"spec": {"maxReplicas": 0, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment"}}},
    ),
    "/apis/networking.k8s.io/v1/ipaddresses": (
        "10.0.0.7",
        {"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "web"}}},
        {"spec": {"parentRef": {"resource": "services"}}},
    ),
    "/apis/networking.k8s.io/v1/servicecidrs": (
        "more",
        {"spec": {"cidrs": ["10.1.0.0/16", "2001:db8::/64"]}},
        {"spec": {"cidrs": ["10.1.0.0/16", "10.2.0.0/16"]}},
    ),
    f"{STORAGE}volumeattributesclasses": (
        "gold",
        {"driverName": "d.example.com", "parameters": {"iops": "1"}},
        {"driverName": "d.example.com"},
    ),
    "/apis/apiregistration.k8s.io/v1/apiservices": (
        "v1.example.com",
        {"spec": {"group": "example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}},
        {"spec": {"group": "example.com", "version": "v1", "service": {"name": "a", "namespace": "b"}}},
    ),
}
"""Kinds that are only stored: a name, a valid object, an invalid one."""


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.rpartition("/")[2])
def test_kind_for_the_controller_manager_is_stored(client: Client, path: str) -> None:
    name, good, bad = STORED[path]
    answer = send(client, "POST", path, {"metadata": {"name": name}, **bad})
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    created(client, path, name, **good)
    table = client.ask("GET", path, None, {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}).json
    assert name in [row["cells"][0] for row in table["rows"]]


def test_each_built_in_version_has_an_api_service(client: Client) -> None:
    listed = client.ask("GET", "/apis/apiregistration.k8s.io/v1/apiservices").json["items"]
    found = {each["metadata"]["name"]: each for each in listed}
    groups = client.ask("GET", "/apis").json["groups"]
    wanted = {f"{version['version']}.{group['name']}" for group in groups for version in group["versions"]}
    assert wanted | {"v1."} <= found.keys()
    assert {each["status"]["conditions"][0]["status"] for each in found.values()} == {"True"}


def test_limit_range_without_limits_has_null(client: Client) -> None:
    path = "/api/v1/namespaces/default/limitranges"
    assert created(client, path, "none", spec={"limits": []})["spec"] == {"limits": None}


def test_write_of_an_object_that_is_gone_does_not_create_another(client: Client) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/gone"
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "gone", "uid": "u"}}
    put = send(client, "PUT", path, lease)
    assert (put.status, put.json["reason"]) == (409, "Conflict")
    assert put.json["message"].endswith("UID in precondition: u, UID in object meta: ")
    applied = send(client, "PATCH", f"{path}?fieldManager=m", lease, APPLY)
    assert (applied.status, "no existing object was found" in applied.json["message"]) == (409, True)
    stale = {**lease, "metadata": {"name": "gone", "resourceVersion": "1"}}
    assert send(client, "PUT", path, stale).status == 201


def test_deletion_of_a_collection_lists_the_objects_as_they_were(client: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    metadata = {"name": "held", "labels": {"of": "collection"}, "finalizers": ["example.com/keep"]}
    assert send(client, "POST", path, {"metadata": metadata}).status == 201
    listed = send(client, "DELETE", f"{path}?labelSelector=of%3Dcollection").json["items"]
    assert [("deletionTimestamp" in item["metadata"], item["metadata"]["name"]) for item in listed] == [(False, "held")]
    assert "deletionTimestamp" in send(client, "GET", f"{path}/held").json["metadata"]
    send(client, "PATCH", f"{path}/held", {"metadata": {"finalizers": None}})


def test_bound_pod_has_the_zone_of_its_node(client: Client) -> None:
    zone = {"topology.kubernetes.io/zone": "z1"}
    assert send(client, "POST", "/api/v1/nodes", {"metadata": {"name": "zoned", "labels": zone}}).status == 201
    path = "/api/v1/namespaces/default/pods"
    created(client, path, "tobind", spec={"containers": [{"name": "c", "image": "i"}]})
    binding = {"metadata": {"name": "tobind"}, "target": {"kind": "Node", "name": "zoned"}}
    assert send(client, "POST", f"{path}/tobind/binding", binding).status == 201
    assert send(client, "GET", f"{path}/tobind").json["metadata"]["labels"] == zone
