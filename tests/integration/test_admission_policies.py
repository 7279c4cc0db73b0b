"""Admission policies in CEL against a real API server: what charts ship, and what hostile ones cost."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.api_judge import Answer, Client, fault
from tests.support.apiserver_plane import Plane, running_plane

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{ADMISSION}/validatingadmissionpolicies", f"{ADMISSION}/validatingadmissionpolicybindings"
MAPS = "/api/v1/namespaces/default/configmaps"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
JSON, MERGE = "application/json", "application/merge-patch+json"
DEADLINE_S = 30.0
Object = dict[str, Any]


class Scene:
    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.client = Client(plane.port, plane.tls())

    def ask(self, method: str, path: str, body: Any = None, media: str = JSON, **headers: str) -> Answer:
        raw = b"" if body is None else json.dumps(body).encode()
        answer = self.client.ask(method, path, raw, {"Content-Type": media, **headers})
        assert not fault(method, answer)
        return answer

    def make(self, path: str, body: Any) -> Answer:
        answer = self.ask("POST", path, body)
        assert answer.status == 201, answer.body
        return answer

    def policy(self, name: str, spec: Object, actions: tuple[str, ...] = ("Deny",), **bound: Any) -> None:
        self.make(POLICIES, {"metadata": {"name": name}, "spec": spec})
        binding = {"policyName": name, "validationActions": list(actions), **bound}
        self.make(BINDINGS, {"metadata": {"name": f"{name}-b"}, "spec": binding})

    def remove(self, name: str) -> None:
        self.ask("DELETE", f"{BINDINGS}/{name}-b")
        self.ask("DELETE", f"{POLICIES}/{name}")

    def until(self, ask: Callable[[], Answer], wanted: int) -> Answer:
        """Repeat until the policy is in force."""
        return self.plane.until(f"status {wanted}", ask, DEADLINE_S, good=lambda answer: answer.status == wanted)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with running_plane() as plane:
        made = Scene(plane)
        made.until(lambda: made.ask("GET", "/api/v1/namespaces/default"), 200)
        yield made
        made.client.renew()


def rules(resource: str = "configmaps", group: str = "", operations: tuple[str, ...] = ("CREATE", "UPDATE")) -> Object:
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": list(operations), "resources": [resource]}
    return {"resourceRules": [rule]}


def config(name: str, dry: bool = True, **data: str) -> tuple[str, str, Object]:
    return "POST", f"{MAPS}{'?dryRun=All' if dry else ''}", {"metadata": {"name": name}, "data": data}


def message(answer: Answer) -> str:
    return str(json.loads(answer.body)["message"])


def test_denied_create_has_upstreams_status(scene: Scene) -> None:
    spec = {
        "matchConstraints": rules(),
        "matchConditions": [{"name": "mine", "expression": "object.metadata.name.startsWith('p1-')"}],
        "variables": [{"name": "count", "expression": "has(object.data) ? object.data.size() : 0"}],
        "validations": [
            {"expression": "variables.count < 2", "messageExpression": "'too many: ' + string(variables.count)"}
        ],
    }
    scene.policy("p1", spec)
    answer = scene.until(lambda: scene.ask(*config("p1-a", a="1", b="2")), 422)
    status = json.loads(answer.body)
    text = "ValidatingAdmissionPolicy 'p1' with binding 'p1-b' denied request: too many: 2"
    assert status["message"] == f'configmaps "p1-a" is forbidden: {text}'
    assert (status["reason"], status["code"]) == ("Invalid", 422)
    assert status["details"] == {"name": "p1-a", "kind": "configmaps", "causes": [{"message": text}]}
    assert scene.ask(*config("p1-a", a="1")).status == 201
    assert scene.ask(*config("other", a="1", b="2")).status == 201
    scene.remove("p1")


def test_update_and_delete_see_the_old_object(scene: Scene) -> None:
    scene.make(MAPS, {"metadata": {"name": "p2"}, "data": {"a": "1"}})
    spec = {
        "matchConstraints": rules(operations=("UPDATE", "DELETE")),
        "matchConditions": [{"name": "mine", "expression": "request.name == 'p2'"}],
        "validations": [
            {
                "expression": "request.operation == 'DELETE' ? object == null && has(oldObject.data.go) "
                ": oldObject.data.a == object.data.a",
                "message": "a stays",
                "reason": "Forbidden",
            }
        ],
    }
    scene.policy("p2", spec)
    path = f"{MAPS}/p2"
    answer = scene.until(lambda: scene.ask("PATCH", f"{path}?dryRun=All", {"data": {"a": "2"}}, MERGE), 403)
    assert message(answer).endswith("denied request: a stays")
    assert scene.ask("DELETE", path).status == 403
    assert scene.ask("PATCH", path, {"data": {"go": "1"}}, MERGE).status == 200
    assert scene.ask("DELETE", path).status == 200
    scene.remove("p2")


def test_actions_warn_and_audit_let_the_write_pass(scene: Scene) -> None:
    spec = {
        "matchConstraints": rules(),
        "matchConditions": [{"name": "mine", "expression": "object.metadata.name == 'p3'"}],
        "validations": [{"expression": "false", "message": "never"}],
        "auditAnnotations": [{"key": "name", "valueExpression": "'is ' + object.metadata.name"}],
    }
    scene.policy("p3", spec, actions=("Warn", "Audit"))
    text = "Validation failed for ValidatingAdmissionPolicy 'p3' with binding 'p3-b': never"

    def warns(answer: Answer) -> bool:
        return answer.status == 201 and text in answer.headers.get("Warning", "")

    scene.plane.until("a warning", lambda: scene.ask(*config("p3")), DEADLINE_S, good=warns)
    log = scene.plane.settings.layout.logs / "audit.log"
    seen = scene.plane.until("the audit", log.read_text, DEADLINE_S, good=lambda lines: '"p3/name":"is p3"' in lines)
    assert '"validation.policy.admission.k8s.io/validation_failure"' in seen
    scene.remove("p3")


def test_errors_of_expressions_follow_the_failure_policy(scene: Scene) -> None:
    condition = {"name": "mine", "expression": "object.metadata.name == 'p4'"}
    spec = {"matchConstraints": rules(), "matchConditions": [condition], "validations": [{"expression": "object.no.x"}]}
    scene.policy("p4", spec)
    answer = scene.until(lambda: scene.ask(*config("p4")), 422)
    assert message(answer).endswith("expression 'object.no.x' resulted in error: no such key: no")
    assert scene.ask("PATCH", f"{POLICIES}/p4", {"spec": {"failurePolicy": "Ignore"}}, MERGE).status == 200
    scene.until(lambda: scene.ask(*config("p4")), 201)
    scene.remove("p4")


def test_selectors_and_exclusions_choose_what_is_checked(scene: Scene) -> None:
    scene.make("/api/v1/namespaces", {"metadata": {"name": "strict", "labels": {"policy": "strict"}}})
    match = {**rules(), "namespaceSelector": {"matchLabels": {"policy": "strict"}}}
    match["excludeResourceRules"] = [{**rules()["resourceRules"][0], "resourceNames": ["free"]}]
    scene.policy("p5", {"matchConstraints": match, "validations": [{"expression": "false"}]})
    path = "/api/v1/namespaces/strict/configmaps?dryRun=All"
    answer = scene.until(lambda: scene.ask("POST", path, {"metadata": {"name": "x"}}), 422)
    assert message(answer).endswith("denied request: failed expression: false")
    assert scene.ask("POST", path, {"metadata": {"name": "free"}}).status == 201
    assert scene.ask(*config("x")).status == 201
    scene.remove("p5")


def test_parameters_come_from_config_maps(scene: Scene) -> None:
    scene.make(MAPS, {"metadata": {"name": "limits"}, "data": {"most": "1"}})
    spec = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": rules("secrets"),
        "validations": [{"expression": "object.data.size() <= int(params.data.most)"}],
    }
    reference = {"name": "limits", "parameterNotFoundAction": "Deny"}
    scene.policy("p6", spec, paramRef=reference)
    path = "/api/v1/namespaces/default/secrets?dryRun=All"
    body = {"metadata": {"name": "s"}, "data": {"a": "YQ==", "b": "YQ=="}}
    scene.until(lambda: scene.ask("POST", path, body), 422)
    assert scene.ask("PATCH", f"{MAPS}/limits", {"data": {"most": "2"}}, MERGE).status == 200
    scene.until(lambda: scene.ask("POST", path, body), 201)
    assert scene.ask("DELETE", f"{MAPS}/limits").status == 200
    answer = scene.until(lambda: scene.ask("POST", path, body), 422)
    assert "no params found for policy binding with `Deny` parameterNotFoundAction" in message(answer)
    scene.remove("p6")


def test_authorizer_asks_for_the_users_rights(scene: Scene) -> None:
    check = "authorizer.group('').resource('nodes').namespace('').check('delete').allowed()"
    condition = {"name": "mine", "expression": "object.metadata.name == 'p7'"}
    spec = {"matchConstraints": rules(), "matchConditions": [condition], "validations": [{"expression": f"!{check}"}]}
    scene.policy("p7", spec)
    scene.until(lambda: scene.ask(*config("p7")), 422)
    scene.remove("p7")


NODE = "request.userInfo.?extra[?'authentication.kubernetes.io/node-name'][0].orValue('')"
OBJECT_NODE = '(request.operation == "DELETE" ? oldObject : object).spec.?nodeName.orValue("")'


def test_drivers_publish_slices_of_their_own_node_only(scene: Scene) -> None:
    """The policy that charts of DRA drivers ship, for tokens bound to a pod."""
    driver = "system:serviceaccount:default:driver"
    spec = {
        "matchConstraints": rules("resourceslices", "resource.k8s.io", ("CREATE", "UPDATE", "DELETE")),
        "matchConditions": [{"name": "isDriver", "expression": f"request.userInfo.username == '{driver}'"}],
        "variables": [
            {"name": "userNodeName", "expression": NODE},
            {"name": "objectNodeName", "expression": OBJECT_NODE},
        ],
        "validations": [
            {"expression": 'variables.userNodeName != ""', "message": "no node association found for user"},
            {
                "expression": "variables.userNodeName == variables.objectNodeName",
                "messageExpression": '"this user running on node \'"+variables.userNodeName+"\' may not modify " + '
                '"cluster or node resourceslices"',
            },
        ],
    }
    account = "/api/v1/namespaces/default/serviceaccounts"
    scene.until(lambda: scene.ask("POST", account, {"metadata": {"name": "driver"}}), 201)
    role = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["*"]}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    scene.make(f"{rbac}/clusterroles", {"metadata": {"name": "driver"}, "rules": [role]})
    subject = {"kind": "ServiceAccount", "name": "driver", "namespace": "default"}
    reference = {"kind": "ClusterRole", "name": "driver", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "driver"}, "subjects": [subject], "roleRef": reference}
    scene.make(f"{rbac}/clusterrolebindings", binding)
    scene.make("/api/v1/nodes", {"metadata": {"name": "n1"}})
    pod = {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "driver", "nodeName": "n1"}
    uid = json.loads(scene.make("/api/v1/namespaces/default/pods", {"metadata": {"name": "d"}, "spec": pod}).body)
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "d", "uid": uid["metadata"]["uid"]}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
    plain = {**asked, "spec": {}}
    tokens = [
        json.loads(scene.make(f"{account}/driver/token", each).body)["status"]["token"] for each in (asked, plain)
    ]
    scene.policy("p8", spec)

    anonymous = Client(scene.plane.port, scene.plane.tls(""))

    def publish(name: str, node: str, token: str) -> Answer:
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d.example.com", "nodeName": node, "pool": pool, "devices": [{"name": "dev0"}]}
        body = {"metadata": {"name": name}, "spec": spec}
        headers = {"Content-Type": JSON, "Authorization": f"Bearer {token}"}
        return anonymous.ask("POST", SLICES, json.dumps(body).encode(), headers)

    answer = scene.until(lambda: publish("other", "n2", tokens[0]), 422)
    assert "this user running on node 'n1' may not modify cluster or node resourceslices" in message(answer)
    assert "no node association found for user" in message(publish("own", "n1", tokens[1]))
    assert publish("own", "n1", tokens[0]).status == 201
    anonymous.renew()
    scene.remove("p8")


def test_connections_and_bodies_of_subresources_are_checked(scene: Scene) -> None:
    pod = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n1"}
    scene.make("/api/v1/namespaces/default/pods", {"metadata": {"name": "guarded"}, "spec": pod})
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT", "CREATE"]}
    match = {"resourceRules": [{**rule, "resources": ["pods/exec", "pods/eviction", "serviceaccounts/token"]}]}
    text = "object.kind + ' ' + request.subResource + ' ' + request.name + ' ' + request.operation"
    validation = {"expression": "!(request.name in ['guarded', 'default'])", "messageExpression": text}
    scene.policy("p10", {"matchConstraints": match, "validations": [validation]})
    path = "/api/v1/namespaces/default/pods/guarded"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "guarded"}}
    answer = scene.until(lambda: scene.ask("POST", f"{path}/eviction?dryRun=All", eviction), 422)
    assert message(answer).endswith("denied request: Eviction eviction guarded CREATE")
    connect = scene.ask("POST", f"{path}/exec?command=sh&stdout=true")
    assert (connect.status, "PodExecOptions exec guarded CONNECT" in message(connect)) == (422, True)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    scene.ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    assert "TokenRequest token default CREATE" in message(scene.ask("POST", f"{account}/token", asked))
    scene.remove("p10")


def test_policy_that_never_ends_costs_its_write_a_second(scene: Scene) -> None:
    loops = "object.metadata.name == 'p9' ? lists.range(90).all(a, lists.range(90).all(b, a + b >= 0)) : true"
    spec = {"matchConstraints": rules(), "validations": [{"expression": loops}] * 100}
    scene.policy("p9", spec)
    began = time.monotonic()
    assert scene.ask(*config("p9")).status in (201, 413, 422)
    assert time.monotonic() - began < 10
    scene.remove("p9")
