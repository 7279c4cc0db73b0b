"""Protobuf bodies as kubectl and Go's typed clients send them, and answers for who accepts nothing else."""

import asyncio
import base64
import json

import pytest

from protocols.kube.meta import Object
from protocols.kube.protobuf import MAGIC, MEDIA_TYPE, decode_object, encode_object
from tests.support.apiserver_plane import Plane

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
SENT = {"Content-Type": MEDIA_TYPE}
PREFERRED = {**SENT, "Accept": f"{MEDIA_TYPE},application/json"}
ONLY = {**SENT, "Accept": MEDIA_TYPE}


def ask(plane: Plane, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
    async def once() -> tuple[int, str, bytes]:
        async with plane.client() as session, session.request(method, path, data=body, headers=headers) as answer:
            return answer.status, answer.headers["Content-Type"], await answer.read()

    return asyncio.run(once())


def pod(name: str) -> Object:
    container = {"name": "c", "image": "busybox", "livenessProbe": {"httpGet": {"port": "web"}, "periodSeconds": 3}}
    container["resources"] = {"limits": {"cpu": "1", "example.com/gpu": "2"}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, "securityContext": {"runAsUser": 0}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_kubectl_create_generators(plane: Plane) -> None:
    assert plane.kubectl("create", "namespace", "shop") == "namespace/shop created\n"
    plane.kubectl("create", "configmap", "settings", "--from-literal=a=1", "--from-literal=b=", "-n", "shop")
    plane.kubectl("create", "secret", "generic", "key", "--from-literal=k=v", "-n", "shop")
    plane.kubectl("create", "serviceaccount", "robot", "-n", "shop")
    found = json.loads(plane.kubectl("get", "configmap,secret,serviceaccount", "-n", "shop", "-o", "json"))["items"]
    settings, key, robot = sorted(found, key=lambda obj: str(obj["kind"]))
    assert settings["data"] == {"a": "1", "b": ""}
    assert key["data"] == {"k": base64.b64encode(b"v").decode()}
    assert key["type"] == "Opaque"
    assert robot["metadata"]["name"] == "robot"
    assert plane.kubectl("delete", "configmap", "settings", "-n", "shop").startswith('configmap "settings" deleted')
    assert "already exists" in plane.kubectl("create", "namespace", "shop", check=False)


def test_kubectl_run_and_force_delete(plane: Plane) -> None:
    plane.kubectl("run", "p", "--image=busybox", "--restart=Never", "--", "sleep", "1")
    found = json.loads(plane.kubectl("get", "pod", "p", "-o", "json"))
    assert found["spec"]["containers"][0]["args"] == ["sleep", "1"]
    plane.kubectl("delete", "pod", "p", "--force", "--grace-period=0")
    assert "NotFound" in plane.kubectl("get", "pod", "p", check=False)


def test_a_typed_client_writes_protobuf_and_reads_json(plane: Plane) -> None:
    status, media, body = ask(plane, "POST", PODS, encode_object(pod("typed")), PREFERRED)
    assert (status, media) == (201, "application/json"), body
    created = json.loads(body)
    assert created["spec"]["terminationGracePeriodSeconds"] == 0
    assert created["spec"]["securityContext"] == {"runAsUser": 0}
    assert created["spec"]["containers"][0]["livenessProbe"]["httpGet"]["port"] == "web"

    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "typed"}, "target": {"name": "n1"}}
    assert ask(plane, "POST", f"{PODS}/typed/binding", encode_object(binding), PREFERRED)[0] == 201

    status, _, body = ask(plane, "GET", f"{PODS}/typed", b"", {})
    current = json.loads(body)
    assert current["spec"]["nodeName"] == "n1"
    current["status"]["phase"] = "Running"
    status, _, body = ask(plane, "PUT", f"{PODS}/typed/status", encode_object(current), PREFERRED)
    assert (status, json.loads(body)["status"]["phase"]) == (200, "Running"), body

    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    assert ask(plane, "DELETE", f"{PODS}/typed", encode_object(options), PREFERRED)[0] == 200
    assert ask(plane, "GET", f"{PODS}/typed", b"", {})[0] == 404


def test_who_accepts_nothing_else_reads_protobuf(plane: Plane) -> None:
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "only"}, "binaryData": {"b": "AP8="}}
    status, media, body = ask(plane, "POST", MAPS, encode_object(wanted), ONLY)
    assert (status, media) == (201, MEDIA_TYPE)
    created = decode_object(body)
    assert created["binaryData"] == {"b": "AP8="}
    assert created["metadata"]["uid"]

    status, media, body = ask(plane, "GET", MAPS, b"", ONLY)
    listing = decode_object(body)
    assert listing["kind"] == "ConfigMapList"
    assert listing["metadata"]["resourceVersion"]
    only = next(item for item in listing["items"] if item["metadata"]["name"] == "only")
    assert only["metadata"] == created["metadata"]

    query = "?watch=true&timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.name%3Donly"
    status, media, body = ask(plane, "GET", MAPS + query, b"", ONLY)
    assert (status, media) == (200, f"{MEDIA_TYPE};stream=watch")
    size = int.from_bytes(body[:4], "big")
    event = body[4 : 4 + size]
    assert event.startswith(b"\x0a\x05ADDED")
    assert decode_object(event[event.index(MAGIC) :])["metadata"] == created["metadata"]

    status, media, body = ask(plane, "DELETE", f"{MAPS}/only", b"", ONLY)
    assert decode_object(body)["status"] == "Success"


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        (b"", 400, "does not begin with the prefix"),
        (b"{}", 400, "does not begin with the prefix"),
        (MAGIC + b"\xff" * 20, 400, "longer than 64 bits"),
        (encode_object(pod("cut"))[:-20], 400, "does not fit"),
        (encode_object({"apiVersion": "v1", "kind": "ConfigMap"}).replace(b"ConfigMap", b"Elsewhere"), 415, "json"),
        (encode_object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}), 400, "ConfigMap"),
    ],
)
def test_bad_bodies_get_a_status(plane: Plane, body: bytes, code: int, says: str) -> None:
    status, _, answer = ask(plane, "POST", PODS, body, PREFERRED)
    told = json.loads(answer)
    assert (status, told["code"], told["kind"]) == (code, code, "Status"), told
    assert says in told["message"]


def test_a_kind_without_protobuf_is_not_acceptable(plane: Plane) -> None:
    path = "/apis/resource.k8s.io/v1alpha3/resourceslicepatches"
    assert ask(plane, "GET", path, b"", ONLY)[0] == 406
    assert ask(plane, "GET", path, b"", PREFERRED)[:2] == (200, "application/json")
    assert ask(plane, "GET", f"{MAPS}?watch=true", b"", {"Accept": "application/yaml"})[0] == 406


def test_a_definition_is_created_and_updated_as_gos_client_sends_it(plane: Plane) -> None:
    """Go writes the empty status, too."""
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "toys.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "toys", "singular": "", "kind": "Toy"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
            "preserveUnknownFields": False,
        },
        "status": {"acceptedNames": {"plural": "", "kind": ""}},
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    status, media, body = ask(plane, "POST", path, encode_object(definition), ONLY)
    assert (status, media) == (201, MEDIA_TYPE), body
    assert decode_object(body)["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == schema
    found = plane.kubectl("wait", "crd/toys.example.com", "--for=condition=Established", "--timeout=60s")
    assert "condition met" in found

    newest = decode_object(ask(plane, "GET", f"{path}/toys.example.com", b"", ONLY)[2])
    newest["spec"]["names"]["shortNames"] = ["ty"]
    status, _, body = ask(plane, "PUT", f"{path}/toys.example.com", encode_object(newest), ONLY)
    assert status == 200, body
    assert decode_object(body)["spec"]["names"]["shortNames"] == ["ty"]
