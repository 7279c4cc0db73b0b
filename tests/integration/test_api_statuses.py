"""The exact words of the API's refusals, which clients match on, and the exact shape of its tables: those of Kubernetes
1.36, one line for each."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api_judge import Answer, Client, fault
from tests.support.apiserver_plane import Plane
from tests.support.shared_fixtures import apiserver_on_each_store

DEFAULT = "/api/v1/namespaces/default"
MAPS, PODS = f"{DEFAULT}/configmaps", f"{DEFAULT}/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CAUSED = " is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
REJECTED = "the server rejected our request due to an error in our request"
UNREADABLE = (
    "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error"
)
MEDIA = {
    "json": "application/json",
    "merge": "application/merge-patch+json",
    "ops": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
    "text": "text/plain",
}


def config_map(name: str = "x", **parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **parts}


LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
POD = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}
OPTIONS = '{} "" is invalid: '.format

READS: list[tuple[str, int, str, str]] = [
    (f"{MAPS}/x?resourceVersion=a", 400, "BadRequest", 'strconv.ParseUint: parsing "a": invalid syntax'),
    (f"{MAPS}?limit=a", 400, "BadRequest", 'strconv.ParseInt: parsing "a": invalid syntax'),
    (
        f"{MAPS}?resourceVersion=5&continue=a",
        400,
        "BadRequest",
        "specifying resource version is not allowed when using",
    ),
    (f"{MAPS}?continue=a", 400, "BadRequest", "invalid continue token: continue key is not valid"),
    (f"{MAPS}?timeout=a", 400, "BadRequest", "invalid timeout specified in the request URL"),
    (f"{MAPS}?resourceVersionMatch=Exact", 422, "Invalid", f"{CAUSED}is forbidden unless resourceVersion is provided"),
    (
        f"{MAPS}?resourceVersionMatch=a&resourceVersion=1",
        422,
        "Invalid",
        'supported values: "Exact", "NotOlderThan", ""',
    ),
    (
        f"{MAPS}?watch=1&sendInitialEvents=1",
        422,
        "Invalid",
        "sendInitialEvents requires setting resourceVersionMatch to",
    ),
    (f"{MAPS}?sendInitialEvents=1", 422, "Invalid", "sendInitialEvents is forbidden for list"),
    (f"{PODS}?fieldSelector=spec.a%3Db", 400, "BadRequest", "field label not supported: spec.a"),
    (f"{SLICES}?fieldSelector=a%3Db", 400, "BadRequest", "not supported for resource.k8s.io/v1, Kind=ResourceSlice: a"),
    (f"{PODS}?fieldSelector=a", 400, "BadRequest", "invalid selector: 'a'; can't understand 'a'"),
    (f"{PODS}?labelSelector=a+in+b", 400, "BadRequest", "unable to parse requirement: found 'b', expected: '('"),
    (f"{MAPS}/none", 404, "NotFound", 'configmaps "none" not found'),
    (f"{LEASES}/none", 404, "NotFound", 'leases.coordination.k8s.io "none" not found'),
    ("/apis/none.example/v1/x", 404, "NotFound", "the server could not find the requested resource"),
]

ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ASKED_TWICE: Any = {"spec": {"user": "x", "resourceAttributes": {"verb": "a"}, "nonResourceAttributes": {"path": "/"}}}
WRITES: list[tuple[str, str, Any, str, int, str]] = [
    ("POST", MAPS, config_map(), "json", 409, 'configmaps "x" already exists'),
    ("POST", MAPS, "{", "json", 400, f"{UNREADABLE}: Input data was truncated ({{)"),
    ("POST", MAPS, "", "json", 400, f"{UNREADABLE}: Input data was truncated (<empty>)"),
    ("POST", MAPS, POD, "json", 400, 'Pod in version "v1" cannot be handled as a ConfigMap: converting (v1.Pod) to'),
    ("POST", MAPS, {**config_map(), "apiVersion": "v7"}, "json", 400, "the API version in the data (v7) does not matc"),
    ("POST", MAPS, config_map(data=[1]), "json", 400, "json: cannot unmarshal array into Go struct field ConfigMap.da"),
    ("POST", MAPS, config_map(), "text", 415, "the body of the request was in an unknown format - accepted media type"),
    ("POST", f"{MAPS}?dryRun=a", config_map(), "json", 422, f"{OPTIONS('CreateOptions.meta.k8s.io')}dryRun: Unsupport"),
    ("PUT", f"{MAPS}/x?dryRun=a", config_map(), "json", 422, f"{OPTIONS('UpdateOptions.meta.k8s.io')}dryRun: Unsupp"),
    ("PUT", f"{MAPS}/x", config_map("y"), "json", 400, "the name of the object (y) does not match the name on the URL"),
    ("PUT", f"{MAPS}/x", {"metadata": {}}, "json", 400, "the name of the object (x based on URL) was undeterminable: "),
    ("PUT", f"{MAPS}/none", config_map("none"), "json", 404, 'configmaps "none" not found'),
    ("PUT", f"{LEASES}/l", LEASE, "json", 422, "metadata.resourceVersion: Invalid value: 0: must be specified for an "),
    ("PUT", f"{LEASES}/made", {**LEASE, "metadata": {"name": "made"}}, "json", 201, ""),
    ("PUT", MAPS, {}, "json", 405, "the server does not allow this method on the requested resource"),
    ("DELETE", "/api/v1/namespaces", "", "json", 405, 'deletecollection is not supported on resources of kind "namesp'),
    ("PATCH", f"{MAPS}/x", {}, "json", 415, "application/merge-patch+json, application/strategic-merge-patch+json, ap"),
    ("PATCH", f"{MAPS}/x", "{", "merge", 400, "error decoding patch: "),
    ("PATCH", f"{MAPS}/x", [], "merge", 400, "error decoding patch: "),
    ("PATCH", f"{MAPS}/x", [{"op": "remove", "path": "/a"}], "ops", 422, REJECTED),
    ("PATCH", f"{MAPS}/x", [{}] * 10_001, "ops", 413, "the allowed maximum operations in a JSON patch is 10000, got 1"),
    ("PATCH", f"{MAPS}/x", {"$patch": "a"}, "strategic", 422, REJECTED),
    ("PATCH", f"{MAPS}/x?force=1", {}, "merge", 422, f"{OPTIONS('PatchOptions.meta.k8s.io')}force: Forbidden: may not"),
    ("PATCH", f"{MAPS}/x", {"metadata": {"resourceVersion": "1"}}, "merge", 409, f'configmaps "x": {MODIFIED}'),
    ("PATCH", f"{MAPS}/x", config_map(), "apply", 422, "fieldManager: Required value: is required for apply patch"),
    ("PATCH", f"{MAPS}/x?fieldManager={'m' * 129}", config_map(), "apply", 422, "fieldManager: Too long: may not be m"),
    ("PATCH", f"{MAPS}/x?fieldManager=%0a", config_map(), "apply", 422, "invalid character U+000A (at position 0)"),
    ("PATCH", f"{MAPS}/x?fieldManager=m", {**config_map(), "apiVersion": "v2"}, "apply", 400, "Incorrect version spec"),
    ("DELETE", f"{MAPS}/x", {"preconditions": {"uid": "a"}}, "json", 409, "the UID in the precondition (a) does not m"),
    ("DELETE", f"{MAPS}/x", {"propagationPolicy": "a"}, "json", 422, 'values: "Foreground", "Background", "Orphan", "'),
    ("DELETE", f"{MAPS}/x?gracePeriodSeconds=a", "", "json", 400, 'strconv.ParseInt: parsing "a": invalid syntax'),
    ("POST", ACCESS, ASKED_TWICE, "json", 422, 'spec.nonResourceAttributes: Invalid value: {"path":"/"}: cannot be s'),
    ("POST", ACCESS, {"spec": {"user": "x"}}, "json", 422, "spec.resourceAttributes: Invalid value: null: exactly one"),
]  # fmt: skip

TABLES = {
    PODS: "Name Ready Status Restarts Age (IP) (Node) (Nominated_Node) (Readiness_Gates)",
    "/api/v1/nodes": "Name Status Roles Age Version (Internal-IP) (External-IP) (OS-Image) (Kernel-Version)"
    " (Container-Runtime)",
    f"{DEFAULT}/events": "Last_Seen Type Reason Object (Subobject) (Source) Message (First_Seen) (Count) (Name)",
    "/apis/resource.k8s.io/v1/resourceclaims": "Name State Age",
    "/apis/resource.k8s.io/v1/resourceclaimtemplates": "Name Age",
    "/apis/resource.k8s.io/v1/deviceclasses": "Name Age",
    SLICES: "Name Node Driver Pool Age",
    LEASES: "Name Holder Age",
    "/api/v1/namespaces": "Name Status Age",
    MAPS: "Name Data Age",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": "Name Created_At",
}

plane = apiserver_on_each_store


@pytest.fixture(scope="module")
def client(plane: Plane) -> Iterator[Client]:
    """A client, and the objects that the rows are about."""
    opened = Client(plane.port, plane.tls())
    for path, body in ((MAPS, config_map(data={"a": "1"})), (LEASES, LEASE)):
        assert send(opened, "POST", path, body).status == 201
    yield opened
    opened.close()


def send(client: Client, method: str, path: str, body: Any, media: str = "json") -> Answer:
    raw = body if isinstance(body, str) else json.dumps(body)
    return client.ask(method, path, raw.encode(), {"Content-Type": MEDIA[media]})


@pytest.mark.parametrize(("path", "code", "reason", "text"), READS)
def test_refused_reads(client: Client, path: str, code: int, reason: str, text: str) -> None:
    answer = client.ask("GET", path)
    assert (answer.status, fault("GET", answer), answer.json["reason"]) == (code, "", reason)
    assert text in answer.json["message"]


@pytest.mark.parametrize(("method", "path", "body", "media", "code", "text"), WRITES)
def test_refused_writes(client: Client, method: str, path: str, body: Any, media: str, code: int, text: str) -> None:
    answer = send(client, method, path, body, media)
    assert (answer.status, fault(method, answer)) == (code, ""), answer.body[:500]
    assert code < 400 or text in answer.json["message"]


def test_details(client: Client) -> None:
    assert client.ask("GET", "/api/v1/unicorns").json["details"] == {}
    assert client.ask("GET", f"{LEASES}/a").json["details"] == {
        "name": "a",
        "group": "coordination.k8s.io",
        "kind": "leases",
    }
    invalid = send(client, "POST", MAPS, config_map("Bad_")).json["details"]
    assert (invalid["kind"], invalid["name"], invalid["causes"][0]["field"]) == ("ConfigMap", "Bad_", "metadata.name")
    gone = send(client, "DELETE", MAPS + "/z", send(client, "POST", MAPS, config_map("z")) and {})
    assert gone.json["status"] == "Success"
    assert {"name": "z", "kind": "configmaps"}.items() <= gone.json["details"].items()


@pytest.mark.parametrize("path", TABLES)
def test_columns(client: Client, path: str) -> None:
    table = client.ask("GET", path, None, {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}).json
    columns = table["columnDefinitions"]
    shown = [name if column["priority"] == 0 else f"({name})" for column in columns for name in [column["name"]]]
    assert " ".join(name.replace(" ", "_") for name in shown) == TABLES[path]
    assert all(set(column) == {"name", "type", "format", "description", "priority"} for column in columns)
    assert [column["format"] for column in columns if column["name"] == "Name"] == ["name"]


def test_usage_has_the_form_that_the_client_accepts(client: Client) -> None:
    answer = client.ask("GET", "/apis/metrics.k8s.io/v1beta1/nodes", None, {"Accept": "application/yaml"})
    assert (answer.status, answer.body.splitlines()[0]) == (200, b"kind: NodeMetricsList")


def test_curl_and_browsers_get_indented_answers(client: Client) -> None:
    plain = client.ask("GET", f"{MAPS}/x").body
    asked = client.ask("GET", f"{MAPS}/x?pretty=true").body
    assert b"\n" not in plain.strip()
    assert asked.startswith(b'{\n  "kind": "ConfigMap"')
    assert json.loads(asked) == json.loads(plain)
    for agent in ("curl/8.0", "Wget/1", "Mozilla/5.0 (X11)"):
        assert client.ask("GET", f"{MAPS}/x", None, {"User-Agent": agent}).body == asked
        assert client.ask("GET", f"{MAPS}/x?pretty=0", None, {"User-Agent": agent}).body == plain
    assert b'\n  "reason": "NotFound"' in client.ask("GET", f"{MAPS}/none?pretty=1").body
    assert client.ask("GET", "/openapi/v3/api/v1?hash=OLD", None, {"User-Agent": "curl/8.0"}).status == 301


SHARED = {
    "driver": "d.example.com",
    "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
    "allNodes": True,
    "devices": [
        {
            "name": "a",
            "allowMultipleAllocations": True,
            "capacity": {
                "memory": {"value": "8Gi", "requestPolicy": {"default": "1Gi", "validValues": ["1Gi", "2Gi"]}}
            },
        }
    ],
}
RULES = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": [None]}}}
DEFINITION = {
    "metadata": {"name": "nulls.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "nulls", "kind": "Null"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": RULES}}],
    },
}
ONCE_500: dict[str, tuple[str, str, Any, int, str]] = {
    "watch of usage": (
        "GET", "/apis/metrics.k8s.io/v1beta1/nodes?watch=true", None, 405,
        'watch is not supported on resources of kind "nodes.metrics.k8s.io"',
    ),
    "null for a rule": (
        "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION, 422,
        "x-kubernetes-validations[0].rule: Required value",
    ),
    "limitBytes of 5,000 digits": ("GET", f"{PODS}/logged/log?limitBytes={'9' * 5000}", None, 400, "out of range"),
    "resourceVersion of 5,000 digits": (
        "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "late", "resourceVersion": "9" * 5000}},
        400, "resourceVersion should not be set",
    ),
    "policy of two values": ("POST", SLICES, {"metadata": {"name": "shared"}, "spec": SHARED}, 201, ""),
    "a number for dryRun": (
        "DELETE", f"{PODS}/logged", {"dryRun": 5}, 400, "dryRun must be a list of strings"
    ),
    "null for a priority": (
        "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "none"}, "value": None}, 201, ""
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ONCE_500)
def test_what_was_once_a_500_has_its_answer(plane: Plane, what: str) -> None:
    method, path, body, code, told = ONCE_500[what]
    client = Client(plane.port, plane.tls())
    logged = json.dumps({**POD, "metadata": {"name": "logged"}}).encode()
    client.ask("POST", PODS, logged, {"Content-Type": MEDIA["json"]})
    sent = None if body is None else json.dumps(body).encode()
    answer = client.ask(method, path, sent, {"Content-Type": MEDIA["json"]})
    assert (answer.status, fault(method, answer)) == (code, ""), answer.body
    assert told in answer.body.decode().replace('\\"', '"')
    client.close()
