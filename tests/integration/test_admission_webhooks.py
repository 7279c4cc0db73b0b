"""Admission webhooks and mutating policies against a real API server: answers, patches, failures, slow servers."""

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.support.api_judge import Answer, Client
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.waiting import until
from tests.support.webhook_server import Hooks, Object, Respond

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
VALIDATING, MUTATING = f"{ADMISSION}/validatingwebhookconfigurations", f"{ADMISSION}/mutatingwebhookconfigurations"
MAPS = "/api/v1/namespaces/default/configmaps"
JSON, MERGE = "application/json", "application/merge-patch+json"
DEADLINE_S = 30.0


class Scene:
    def __init__(self, plane: Plane, hooks: Hooks) -> None:
        self.plane, self.hooks = plane, hooks
        self.client = Client(plane.port, plane.tls())

    def ask(self, method: str, path: str, body: Any = None, media: str = JSON) -> Answer:
        raw = b"" if body is None else json.dumps(body).encode()
        return self.client.ask(method, path, raw, {"Content-Type": media})

    @contextlib.contextmanager
    def configured(self, collection: str, name: str, *respond: Respond, **changes: Any) -> Iterator[None]:
        """Have webhooks for config maps whose name begins with `name`."""
        hooks = []
        for number, each in enumerate(respond):
            path = f"{name}{number}"
            self.hooks.responses[path] = each
            hooks.append(
                {
                    "name": f"{path}.example.com",
                    "clientConfig": {"url": f"https://127.0.0.1:{self.hooks.port}/{path}", "caBundle": self.hooks.ca},
                    "rules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE", "UPDATE", "DELETE"],
                            "resources": ["configmaps"],
                        }
                    ],
                    "matchConditions": [{"name": "mine", "expression": f"request.name.startsWith('{name}')"}],
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    **changes,
                }
            )
        answer = self.ask("POST", collection, {"metadata": {"name": name}, "webhooks": hooks})
        assert answer.status == 201, answer.body
        yield
        assert self.ask("DELETE", f"{collection}/{name}").status == 200

    def until(self, ask: Callable[[], Answer], good: Callable[[Answer], bool]) -> Answer:
        """Repeat until the configuration is in force."""
        return self.plane.until("the configuration is in force", ask, DEADLINE_S, good=good)

    def create(self, name: str, dry: bool = True, **data: str) -> Answer:
        return self.ask("POST", f"{MAPS}{'?dryRun=All' if dry else ''}", {"metadata": {"name": name}, "data": data})


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with Hooks(tmp_path_factory.mktemp("hooks")) as hooks, running_plane() as plane:
        threading.Thread(target=hooks.serve_forever, daemon=True).start()
        made = Scene(plane, hooks)
        made.until(lambda: made.ask("GET", "/api/v1/namespaces/default"), lambda answer: answer.status == 200)
        yield made
        hooks.leave.set()
        made.client.renew()
        hooks.shutdown()


def allow(request: Object) -> Object:
    return {"allowed": True}


def patch(*operations: Object) -> Object:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def test_webhook_denies_with_its_own_message(scene: Scene) -> None:
    def deny(request: Object) -> Object:
        return {"allowed": False, "status": {"message": "not today", "code": 403}, "warnings": ["careful"]}

    with scene.configured(VALIDATING, "v1", deny):
        answer = scene.until(lambda: scene.create("v1-a"), lambda answer: answer.status == 403)
        assert answer.json["message"] == 'admission webhook "v10.example.com" denied the request: not today'
        path, review = scene.hooks.reviews[-1]
        request = review["request"]
        assert (review["apiVersion"], path) == ("admission.k8s.io/v1", "/v10?timeout=10s")
        assert (request["operation"], request["dryRun"], request["name"]) == ("CREATE", True, "v1-a")
        assert request["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
        assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
        assert request["userInfo"]["username"] == "admin"
        assert request["object"]["metadata"]["name"] == "v1-a"
        assert request["oldObject"] is None
        assert scene.create("other").status == 201


def test_webhooks_see_updates_and_deletions(scene: Scene) -> None:
    def keep(request: Object) -> Object:
        return {"allowed": "keep" not in (request["oldObject"] or {}).get("data", {})}

    assert scene.create("v2", dry=False, keep="1").status == 201
    with scene.configured(VALIDATING, "v2", keep):
        answer = scene.until(lambda: scene.ask("DELETE", f"{MAPS}/v2?dryRun=All"), lambda answer: answer.status == 400)
        assert answer.json["message"] == 'admission webhook "v20.example.com" denied the request without explanation'
        options = {"kind": "DeleteOptions", "propagationPolicy": "Background", "gracePeriodSeconds": 0}
        assert scene.ask("DELETE", f"{MAPS}/v2", options).status == 400
        shown = scene.hooks.reviews[-1][1]["request"]["options"]
        assert shown == {**options, "apiVersion": "meta.k8s.io/v1"}
        change = {"data": {"keep": None}}
        assert scene.ask("PATCH", f"{MAPS}/v2", change, MERGE).status == 400
        request = scene.hooks.reviews[-1][1]["request"]
        assert (request["operation"], request["object"].get("data")) == ("UPDATE", None)
        options = {"fieldManager": "m", "fieldValidation": "Strict", "force": True}
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"keep": "2"}}
        query = "fieldManager=m&fieldValidation=Strict&force=true"
        assert scene.ask("PATCH", f"{MAPS}/v2?{query}", wanted, "application/apply-patch+yaml").status == 400
        shown = scene.hooks.reviews[-1][1]["request"]["options"]
        assert shown == {**options, "kind": "PatchOptions", "apiVersion": "meta.k8s.io/v1"}
    scene.until(lambda: scene.ask("DELETE", f"{MAPS}/v2"), lambda answer: answer.status == 200)


def test_mutating_webhooks_change_new_and_updated_objects(scene: Scene) -> None:
    def first(request: Object) -> Object:
        data = request["object"].get("data", {})
        return patch({"op": "add", "path": "/data/first", "value": "sees " + ",".join(sorted(data))})

    def second(request: Object) -> Object:
        return patch(
            {"op": "add", "path": "/data/second", "value": "2"}, {"op": "add", "path": "/kind", "value": "Pod"}
        )

    with scene.configured(MUTATING, "m1", first, second, reinvocationPolicy="IfNeeded"):
        answer = scene.until(lambda: scene.create("m1", a="1"), lambda answer: "second" in answer.json.get("data", {}))
        assert answer.json["kind"] == "ConfigMap"
        assert answer.json["data"] == {"a": "1", "first": "sees a,first,second", "second": "2"}
        made = scene.create("m1", dry=False, a="1").json
        owned = [sorted(entry["fieldsV1"].get("f:data", {})) for entry in made["metadata"]["managedFields"]]
        assert owned == [[".", "f:a"]], "nobody owns what admission sets"
        changed = scene.ask("PATCH", f"{MAPS}/m1", {"data": {"second": None, "b": "1"}}, MERGE)
        assert changed.json["data"]["second"] == "2"
        assert changed.json["data"]["b"] == "1"


def test_webhook_that_did_not_match_is_not_called_again(scene: Scene) -> None:
    def late(request: Object) -> Object:
        return patch({"op": "add", "path": "/metadata/labels", "value": {"late": "yes"}})

    def marks(key: str) -> Respond:
        return lambda request: patch({"op": "add", "path": f"/data/{key}", "value": "1"})

    conditions = [{"name": "mine", "expression": "request.name == 'w1'"}]
    hook = partial(scene.configured, MUTATING, reinvocationPolicy="IfNeeded", matchConditions=conditions)
    with hook("w1", marks("labelled"), objectSelector={"matchLabels": {"late": "yes"}}), hook("w2", late):
        answer = scene.until(lambda: scene.create("w1", a="1"), lambda answer: "labels" in answer.json["metadata"])
        assert answer.json["data"] == {"a": "1"}


def test_webhook_sets_no_field_that_the_server_owns(scene: Scene) -> None:
    long_ago = "2020-01-01T00:00:00Z"
    kept = {"generation": 77, "uid": "11111111-1111-1111-1111-111111111111", "creationTimestamp": long_ago}
    deletion = {"deletionTimestamp": long_ago, "deletionGracePeriodSeconds": 0}
    given = {**kept, **deletion}

    def born_deleted(request: Object) -> Object:
        fields = [{"op": "add", "path": f"/metadata/{key}", "value": value} for key, value in given.items()]
        return patch(*fields, {"op": "add", "path": "/data", "value": {"seen": "1"}})

    with scene.configured(MUTATING, "o", born_deleted):
        scene.until(lambda: scene.create("o"), lambda answer: "seen" in answer.json.get("data", {}))
        made = scene.create("o", dry=False).json["metadata"]
        assert "deletionTimestamp" not in made
        assert {key for key, value in given.items() if made.get(key) == value} == set()
        changed = scene.ask("PATCH", f"{MAPS}/o", {"data": {"b": "1"}}, MERGE)
        assert (changed.status, changed.json["reason"]) == (422, "Invalid"), "as upstream: the field is immutable"
        given = kept
        changed = scene.ask("PATCH", f"{MAPS}/o", {"data": {"b": "1"}}, MERGE)
        assert (changed.status, "generation" in changed.json["metadata"]) == (200, False)
        assert changed.json["metadata"]["uid"] == made["uid"]
    assert scene.ask("GET", f"{MAPS}/o").json["metadata"]["uid"] == made["uid"]


BORN_DELETED = """[JSONPatch{op: "add", path: "/metadata/deletionTimestamp", value: "2020-01-01T00:00:00Z"},
    JSONPatch{op: "add", path: "/metadata/deletionGracePeriodSeconds", value: 0},
    JSONPatch{op: "add", path: "/metadata/labels", value: {"by": "policy"}}]"""


def _own_address() -> str:
    """Return an address of this machine that an EndpointSlice may have; empty if there is none. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
    return ""


def test_service_is_reached_by_its_endpoint_slices(scene: Scene) -> None:
    address = _own_address()
    if not address or address.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    ports = [{"name": "https", "port": 443}]
    service = {"metadata": {"name": "hook"}, "spec": {"clusterIP": "None", "ports": ports, "selector": {"app": "hook"}}}
    assert scene.ask("POST", "/api/v1/namespaces/default/services", service).status == 201
    client = {"service": {"name": "hook", "namespace": "default", "path": "/s10"}, "caBundle": scene.hooks.ca}
    with scene.configured(VALIDATING, "s1", lambda request: {"allowed": False}, clientConfig=client):
        url = 'Post "https://hook.default.svc:443/s10?timeout=10s"'
        text = f'failed calling webhook "s10.example.com": failed to call webhook: {url}: no endpoints available'
        scene.until(lambda: scene.create("s1"), lambda answer: text in answer.body.decode().replace("\\", ""))
        found = {
            "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": scene.hooks.port}],
        }
        slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
        assert scene.ask("POST", slices, found).status == 201
        scene.until(lambda: scene.create("s1"), lambda answer: b"without explanation" in answer.body)


def test_webhook_that_hangs_fails_by_its_policy_and_delays_nobody(scene: Scene) -> None:
    def hang(request: Object) -> Object:
        scene.hooks.leave.wait(60)
        return {"allowed": True}

    with scene.configured(VALIDATING, "h1", hang, timeoutSeconds=2):
        answer = scene.until(lambda: scene.create("h1"), lambda answer: answer.status == 500)
        assert '?timeout=2s": context deadline exceeded' in answer.json["message"]
    with scene.configured(VALIDATING, "h3", hang, timeoutSeconds=30):
        other = Scene(scene.plane, scene.hooks)

        def asked(_: object = None) -> bool:
            return any("/h30?" in path for path, _ in scene.hooks.reviews)

        held = threading.Thread(target=lambda: other.until(lambda: other.create("h3"), asked))
        held.start()
        until("the webhook is asked", asked)
        for _ in range(5):
            assert scene.create("free").status == 201
        assert held.is_alive(), "others wait for the webhook"
        scene.hooks.leave.set()
        held.join()
        scene.hooks.leave.clear()
        other.client.renew()
    with scene.configured(VALIDATING, "h2", hang, timeoutSeconds=1, failurePolicy="Ignore"):
        assert scene.create("h2").status == 201


def test_answers_that_cannot_be_read_are_failures(scene: Scene) -> None:
    with scene.configured(VALIDATING, "b1", lambda request: {"uid": "other", "allowed": True}):
        answer = scene.until(lambda: scene.create("b1"), lambda answer: answer.status == 500)
        assert "received invalid webhook response: expected response.uid" in answer.json["message"]
    huge = {"allowed": True, "auditAnnotations": {"a": "x" * (4 * 1024 * 1024)}}
    with scene.configured(VALIDATING, "b2", lambda request: huge):
        answer = scene.until(lambda: scene.create("b2"), lambda answer: answer.status == 500)
        assert "more than 3145728 bytes" in answer.json["message"]


def test_only_failed_calls_follow_the_failure_policy(scene: Scene) -> None:
    absent = patch({"op": "remove", "path": "/absent"})
    with scene.configured(MUTATING, "n", lambda _: absent, failurePolicy="Ignore"):
        answer = scene.until(lambda: scene.create("n"), lambda answer: answer.status == 500)
        assert answer.json["message"].startswith("Internal error occurred: ")
        assert scene.create("nobody-else").status == 500
    assert scene.create("n", dry=False).status == 201
    with scene.configured(MUTATING, "n", lambda _: absent):
        answer = scene.until(lambda: scene.ask("DELETE", f"{MAPS}/n?dryRun=All"), lambda answer: answer.status == 500)
        fault = "attempted to modify the object, which is not supported for this operation"
        assert answer.json["message"] == f'Internal error occurred: admission webhook "n0.example.com" {fault}'


def test_mutating_webhook_denies_requests_without_an_object_to_change(scene: Scene) -> None:
    rules = rule("", "serviceaccounts/token", "CREATE")
    token, body = "/api/v1/namespaces/default/serviceaccounts/t/token", {"kind": "TokenRequest", "spec": {}}
    assert scene.ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "t"}}).status == 201
    assert scene.ask("POST", token, body).status == 201
    with scene.configured(MUTATING, "t", lambda _: {"allowed": False}, rules=rules):
        scene.until(lambda: scene.ask("POST", token, body), lambda answer: answer.status == 400)


@pytest.mark.parametrize(("collection", "policy", "status"), [(VALIDATING, "Fail", 403), (MUTATING, "Ignore", 201)])
def test_condition_that_fails_is_forbidden_or_ignored(scene: Scene, collection: str, policy: str, status: int) -> None:
    odd = "request.name.startsWith('q') && object.data.b == ''"
    conditions = [{"name": "odd", "expression": odd}, {"name": "same", "expression": odd}]
    deny = {"allowed": False}
    with scene.configured(collection, "q", lambda _: deny, matchConditions=conditions, failurePolicy=policy):
        scene.until(lambda: scene.create("q", b=""), lambda answer: answer.status == 400)
        answer = scene.create("q", a="1")
        assert answer.status == status
        if status == 403:
            fault = f"expression '{odd}' resulted in error: no such key: b"
            assert answer.json["message"] == f'configmaps "q" is forbidden: {fault}'


APPLY = {
    "patchType": "ApplyConfiguration",
    "applyConfiguration": {"expression": 'Object{metadata: Object.metadata{labels: {"by": "policy"}}}'},
}
PATCH = {
    "patchType": "JSONPatch",
    "jsonPatch": {"expression": '[JSONPatch{op: "add", path: "/data/" + jsonpatch.escapeKey("size"), '
                  'value: string(object.data.size())}]'},
}  # fmt: skip


ONCE = """[JSONPatch{op: "test", path: "/data/a", value: "1"}, JSONPatch{op: "add", path: "/data/once", value: "1"}]"""


def test_mutating_policies_patch_and_apply(scene: Scene) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "mine", "expression": "object.metadata.name == 'p1'"}],
        "reinvocationPolicy": "Never",
        "mutations": [APPLY, PATCH],
    }
    policies, bindings = f"{ADMISSION}/mutatingadmissionpolicies", f"{ADMISSION}/mutatingadmissionpolicybindings"
    assert scene.ask("POST", policies, {"metadata": {"name": "p1"}, "spec": spec}).status == 201
    assert scene.ask("POST", bindings, {"metadata": {"name": "p1"}, "spec": {"policyName": "p1"}}).status == 201
    answer = scene.until(lambda: scene.create("p1", a="1"), lambda answer: "labels" in answer.json["metadata"])
    assert answer.json["metadata"]["labels"] == {"by": "policy"}
    assert answer.json["data"] == {"a": "1", "size": "1"}
    assert scene.create("p2", a="1").json["data"] == {"a": "1"}
    answer = scene.create("p1")
    assert (answer.status, answer.json["reason"]) == (403, "Invalid"), "object.data is missing: the policy fails"
    fault = answer.json["message"]
    assert fault.startswith("policy 'p1' with binding 'p1' denied request: expression '")
    assert answer.json["details"] == {"name": "p1", "kind": "configmaps", "causes": [{"message": fault}]}
    atomic = {"expression": "Object{metadata: Object.metadata{managedFields: []}}"}
    spec["mutations"] = [{"patchType": "ApplyConfiguration", "applyConfiguration": atomic}]
    assert scene.ask("PATCH", f"{policies}/p1", {"spec": spec}, MERGE).status == 200
    answer = scene.until(lambda: scene.create("p1", a="1"), lambda answer: answer.status == 403)
    assert answer.json["message"].endswith("may not mutate atomic arrays, maps or structs: .metadata.managedFields")
    spec["mutations"] = [{"patchType": "JSONPatch", "jsonPatch": {"expression": ONCE}}]
    assert scene.ask("PATCH", f"{policies}/p1", {"spec": spec}, MERGE).status == 200
    answer = scene.until(lambda: scene.create("p1", a="1"), lambda answer: answer.status == 201)
    assert answer.json["data"] == {"a": "1", "once": "1"}
    assert scene.create("p1", a="2").json["data"] == {"a": "2"}, "a test that fails is no error"
    ignoring = {"spec": {"mutations": [PATCH, APPLY], "failurePolicy": "Ignore"}}
    assert scene.ask("PATCH", f"{policies}/p1", ignoring, MERGE).status == 200
    answer = scene.until(lambda: scene.create("p1"), lambda answer: "labels" in answer.json["metadata"])
    assert answer.json["metadata"]["labels"] == {"by": "policy"}, "only the mutation that fails is left out"
    spec["mutations"] = [{"patchType": "JSONPatch", "jsonPatch": {"expression": BORN_DELETED}}]
    change = scene.ask("PATCH", f"{policies}/p1", {"spec": spec}, MERGE)
    assert change.status == 200, change.body
    answer = scene.until(lambda: scene.create("p1", a="1"), lambda answer: "size" not in answer.json.get("data", {}))
    assert answer.json["metadata"]["labels"] == {"by": "policy"}
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds"} & answer.json["metadata"].keys()
    assert scene.ask("DELETE", f"{bindings}/p1").status == 200


# kinds other than config maps, and configurations that change


def rule(group: str, plural: str, *operations: str, version: str = "v1") -> list[Object]:
    return [{"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": [plural]}]


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/hooked.example.com/v1/namespaces/default/widgets"
EVERY = [{"name": "every", "expression": "true"}]


def definition(storage: str = "v1") -> Object:
    text = {"type": "string"}
    versions = []
    for name, fields in (("v1", {"a": text, "b": text}), ("v2", {"a": text, "b": text, "c": text})):
        schema = {"type": "object", "properties": {"data": {"type": "object", "properties": fields}}}
        version = {"name": name, "served": True, "storage": name == storage, "schema": {"openAPIV3Schema": schema}}
        versions.append(version)
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": "hooked.example.com", "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": "widgets.hooked.example.com"}, "spec": spec}


@pytest.fixture(scope="module")
def widgets(scene: Scene) -> str:
    """The collection of a custom resource."""
    assert scene.ask("POST", CRDS, definition()).status == 201
    scene.until(lambda: scene.ask("GET", WIDGETS), lambda answer: answer.status == 200)
    return WIDGETS


def widget(name: str, **data: str) -> Object:
    return {"apiVersion": "hooked.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "data": data}


def test_webhook_denies_creation_update_and_deletion_of_custom_resources(scene: Scene, widgets: str) -> None:
    def guard(request: Object) -> Object:
        held = request["object"] or request["oldObject"]
        return {"allowed": held["data"].get("a") != "forbidden"}

    assert scene.ask("POST", widgets, widget("c1", a="free")).status == 201
    assert scene.ask("POST", widgets, widget("c2", a="forbidden")).status == 201
    rules = rule("hooked.example.com", "widgets", "CREATE", "UPDATE", "DELETE")
    with scene.configured(VALIDATING, "c", guard, rules=rules, matchConditions=EVERY):
        ask = partial(scene.ask, "POST", f"{widgets}?dryRun=All", widget("c3", a="forbidden"))
        scene.until(ask, lambda answer: answer.status == 400)
        assert scene.ask("PATCH", f"{widgets}/c1", {"data": {"a": "forbidden"}}, MERGE).status == 400
        assert scene.ask("DELETE", f"{widgets}/c2").status == 400
        assert scene.ask("PATCH", f"{widgets}/c2", {"data": {"a": "free"}}, MERGE).status == 200
        assert scene.ask("DELETE", f"{widgets}/c2").status == 200


def test_webhook_mutates_custom_resources_and_its_unknown_fields_are_pruned(scene: Scene, widgets: str) -> None:
    def add(request: Object) -> Object:
        return patch(
            {"op": "add", "path": "/data/b", "value": request["object"]["apiVersion"]},
            {"op": "add", "path": "/data/unknown", "value": "x"},
        )

    rules = rule("hooked.example.com", "widgets", "CREATE", "UPDATE")
    with scene.configured(MUTATING, "d", add, rules=rules, matchConditions=EVERY):
        ask = partial(scene.ask, "POST", f"{widgets}?dryRun=All", widget("d1", a="1"))
        found = scene.until(ask, lambda answer: "b" in answer.json["data"])
        assert found.json["data"] == {"a": "1", "b": "hooked.example.com/v1"}
        assert scene.ask("POST", widgets, widget("d1", a="1")).status == 201
        other = f"{CRDS}/widgets.hooked.example.com"
        stored = [{"op": "replace", "path": f"/spec/versions/{at}/storage", "value": at == 1} for at in range(2)]
        assert scene.ask("PATCH", other, stored, "application/json-patch+json").status == 200
        second = f"{widgets.replace('/v1/', '/v2/')}/d1"
        ask = partial(scene.ask, "PATCH", second, {"data": {"a": "2", "b": None, "c": "3"}}, MERGE)
        changed = scene.until(ask, lambda answer: "c" in answer.json["data"])
        seen = {"a": "2", "b": "hooked.example.com/v1", "c": "3"}
        assert changed.json["data"] == seen, "asked in the version of its rule, which has no c"
        assert changed.json["apiVersion"] == "hooked.example.com/v2"
    spoil = partial(
        scene.configured, MUTATING, "d", lambda _: patch({"op": "replace", "path": "/metadata", "value": 1})
    )
    with spoil(rules=rules, matchConditions=EVERY):
        answer = scene.until(
            partial(scene.ask, "PATCH", f"{widgets.replace('/v1/', '/v2/')}/d1", {"data": {"a": "3"}}, MERGE),
            lambda answer: answer.json.get("data") != {"a": "3", "b": "hooked.example.com/v1"},
        )
        assert (answer.status, "a webhook patched is no Widget" in answer.json.get("message", "")) == (500, True)


def test_webhook_denies_definitions(scene: Scene) -> None:
    rules = rule("apiextensions.k8s.io", "customresourcedefinitions", "CREATE")
    made = definition()
    made["metadata"]["name"], made["spec"]["names"] = "gadgets.hooked.example.com", {"plural": "gadgets", "kind": "G"}
    with scene.configured(VALIDATING, "e", lambda _: {"allowed": False}, rules=rules, matchConditions=EVERY):
        scene.until(partial(scene.ask, "POST", f"{CRDS}?dryRun=All", made), lambda answer: answer.status == 400)


def test_webhooks_never_see_configurations_of_webhooks(scene: Scene) -> None:
    rules = rule("*", "*", "*", version="*")
    deny = {"name": "deny", "expression": "request.resource.group == 'admissionregistration.k8s.io'"}
    maps = {"name": "maps", "expression": "request.name == 'f0'"}
    either = [{"name": "either", "expression": f"{deny['expression']} || {maps['expression']}"}]
    with scene.configured(VALIDATING, "f", lambda _: {"allowed": False}, rules=rules, matchConditions=either):
        scene.until(lambda: scene.create("f0"), lambda answer: answer.status == 400)
        with scene.configured(MUTATING, "g", allow):
            body = {"metadata": {"labels": {"a": "b"}}}
            changed = scene.ask("PATCH", f"{MUTATING}/g", body, MERGE)
            assert (changed.status, changed.json["metadata"]["labels"]) == (200, {"a": "b"})


def test_pod_is_defaulted_after_a_webhook_changed_it(scene: Scene) -> None:
    added = {"op": "add", "path": "/spec/initContainers", "value": [{"name": "added", "image": "busybox"}]}
    pod = {"metadata": {"name": "i"}, "spec": {"containers": [{"name": "a", "image": "x"}]}}
    pods = "/api/v1/namespaces/default/pods?dryRun=All"
    hook = partial(scene.configured, MUTATING, "i", lambda _: patch(added), matchConditions=EVERY)
    with hook(rules=rule("", "pods", "CREATE")):
        found = scene.until(partial(scene.ask, "POST", pods, pod), lambda a: "initContainers" in a.json["spec"])
        (made,) = found.json["spec"]["initContainers"]
        assert (made["terminationMessagePolicy"], made["imagePullPolicy"]) == ("File", "Always")


@pytest.mark.parametrize("collection", [VALIDATING, MUTATING])
def test_webhook_follows_changes_of_its_rules(scene: Scene, collection: str) -> None:
    deny = {"allowed": False, "status": {"message": "never"}}
    with scene.configured(collection, "j", lambda _: deny):
        scene.until(lambda: scene.create("j0"), lambda answer: answer.status == 400)
        held = scene.ask("GET", f"{collection}/j").json
        held["webhooks"][0]["rules"][0]["operations"] = ["UPDATE"]
        assert scene.ask("PUT", f"{collection}/j", held).status == 200
        scene.until(lambda: scene.create("j0"), lambda answer: answer.status == 201)
        again = [{"op": "replace", "path": "/webhooks/0/rules/0/operations", "value": ["CREATE"]}]
        assert scene.ask("PATCH", f"{collection}/j", again, "application/json-patch+json").status == 200
        scene.until(lambda: scene.create("j0"), lambda answer: answer.status == 400)
        skipping = [{"name": "skip", "expression": "request.name.startsWith('j') && request.name != 'j-skip-me'"}]
        change = [{"op": "replace", "path": "/webhooks/0/matchConditions", "value": skipping}]
        assert scene.ask("PATCH", f"{collection}/j", change, "application/json-patch+json").status == 200
        scene.until(lambda: scene.create("j-skip-me"), lambda answer: answer.status == 201)
        assert scene.create("j-other").status == 400


def test_webhook_that_cannot_be_reached_fails_closed(scene: Scene) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        gone = held.getsockname()[1]
    client = {"url": f"https://127.0.0.1:{gone}/", "caBundle": scene.hooks.ca}
    with scene.configured(VALIDATING, "k", allow, clientConfig=client, failurePolicy="Fail"):
        answer = scene.until(lambda: scene.create("k0"), lambda answer: answer.status == 500)
        assert 'failed calling webhook "k0.example.com"' in answer.json["message"]


def test_namespace_that_is_gone_when_a_webhook_answers_gets_no_object(scene: Scene) -> None:
    space, other = "/api/v1/namespaces/ending", Client(scene.plane.port, scene.plane.tls())

    def end(request: Object) -> Object:
        if request["namespace"] == "ending":
            assert other.ask("DELETE", space).status == 200
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ending"}, "spec": {}}
            assert other.ask("PUT", f"{space}/finalize", json.dumps(namespace).encode()).status == 200
        return allow(request) if request["name"] == "vz-b" else {"allowed": False}

    assert scene.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "ending"}}).status == 201
    with scene.configured(VALIDATING, "vz", end):
        scene.until(lambda: scene.create("vz-a"), lambda answer: answer.status == 400)
        answer = scene.ask("POST", f"{space}/configmaps", {"metadata": {"name": "vz-b"}})
        assert (answer.status, answer.json["message"]) == (404, 'namespaces "ending" not found')
        assert scene.ask("GET", f"{space}/configmaps/vz-b").status == 404
    other.renew()
