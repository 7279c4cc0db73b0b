"""Nobody raises anybody above themselves: every way a role or binding comes to grant more, played by a real client."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api_judge import Answer, Client, fault
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.waiting import until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"
GROUP = "rbac.authorization.k8s.io"
JSON, MERGE, APPLY = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"
TO_VIEW = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
HELD = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
MORE = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
SELECTS = {"clusterRoleSelectors": [{"matchLabels": {"no": "body"}}]}
WRITER = [{"apiGroups": [GROUP], "resources": ["*"], "verbs": ["create", "get", "update", "patch", "delete"]}, HELD]
"""What mallory holds: all writes of roles and bindings, but neither `escalate` nor `bind`."""


def role(name: str, *rules: Any, labels: Any = None, **more: Any) -> Any:
    head = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole"}
    return {**head, "metadata": {"name": name, "labels": labels or {}}, "rules": list(rules), **more}


def binding(name: str, to: str, user: str = "mallory") -> Any:
    subject = {"kind": "User", "apiGroup": GROUP, "name": user}
    reference = {"kind": "ClusterRole", "apiGroup": GROUP, "name": to}
    return {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference}


class Scene:
    def __init__(self, plane: Plane) -> None:
        self.client = Client(plane.port, plane.tls())
        for path, body in (
            (ROLES, role("writer", *WRITER)),
            (ROLES, role("more", MORE)),
            (ROLES, role("held", HELD)),
            (ROLES, role("gathers", aggregationRule=SELECTS)),
            (BINDINGS, binding("mallory-writes", "writer")),
            (BINDINGS, binding("others-more", "more", "somebody")),
        ):
            answer = self.client.ask("POST", path, json.dumps(body).encode(), {"Content-Type": JSON})
            assert answer.status == 201, answer.body

    def ask(self, method: str, path: str, body: Any, media: str = JSON) -> Answer:
        headers = {"Content-Type": media, "Impersonate-User": "mallory"}
        answer = self.client.ask(method, path, json.dumps(body).encode(), headers)
        assert not fault(method, answer)
        return answer


def is_ok(answer: Answer) -> bool:
    return answer.status == 200


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """An API server with a user of few rights."""
    with running_plane() as plane:
        made = Scene(plane)
        body = {"metadata": {"labels": {"seen": "yes"}}}
        until("the role holds", lambda: made.ask("PATCH", f"{ROLES}/held", body, MERGE), good=is_ok)
        yield made
        made.client.close()


ATTACKS: dict[str, tuple[str, str, Any, str]] = {
    "a label that aggregates": ("PATCH", f"{ROLES}/cluster-admin", {"metadata": {"labels": TO_VIEW}}, MERGE),
    "any label": ("PATCH", f"{ROLES}/more", {"metadata": {"labels": {"team": "blue"}}}, MERGE),
    "an annotation": ("PATCH", f"{ROLES}/more", {"metadata": {"annotations": {"a": "b"}}}, MERGE),
    "a label by PUT": ("PUT", f"{ROLES}/more", role("more", MORE, labels=TO_VIEW), JSON),
    "a label by apply": ("PATCH", f"{ROLES}/more?fieldManager=m", role("more", MORE, labels=TO_VIEW), APPLY),
    "a rule": ("PATCH", f"{ROLES}/held", {"rules": [HELD, MORE]}, MERGE),
    "a rule by apply": ("PATCH", f"{ROLES}/held?fieldManager=m&force=true", role("held", HELD, MORE), APPLY),
    "a new role": ("POST", ROLES, role("new", MORE, labels=TO_VIEW), JSON),
    "a new role by apply": ("PATCH", f"{ROLES}/new?fieldManager=m", role("new", MORE), APPLY),
    "a generated name": ("POST", ROLES, {**role("", MORE), "metadata": {"generateName": "new-"}}, JSON),
    "a dry run": ("POST", f"{ROLES}?dryRun=All", role("new", MORE), JSON),
    "a new role that aggregates": ("POST", ROLES, role("new", aggregationRule=SELECTS), JSON),
    "an aggregation rule": ("PATCH", f"{ROLES}/held", {"aggregationRule": SELECTS}, MERGE),
    "one aggregation rule less": ("PATCH", f"{ROLES}/gathers", {"aggregationRule": None, "rules": [HELD]}, MERGE),
    "a label of what aggregates": ("PATCH", f"{ROLES}/gathers", {"metadata": {"labels": TO_VIEW}}, MERGE),
    "a binding": ("POST", BINDINGS, binding("new", "more"), JSON),
    "a binding in a namespace": (
        "POST", f"{RBAC}/namespaces/default/rolebindings", binding("new", "more"), JSON
    ),
    "a subject": ("PATCH", f"{BINDINGS}/others-more", {"subjects": binding("x", "more")["subjects"]}, MERGE),
    "a label of a binding": ("PATCH", f"{BINDINGS}/others-more", {"metadata": {"labels": {"a": "b"}}}, MERGE),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_write_that_grants_more_than_its_author_holds_is_refused(scene: Scene, attack: str) -> None:
    answer = scene.ask(*ATTACKS[attack])
    assert answer.status == 403, answer.body
    told = (
        'user "mallory" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
    )
    aggregates = "must have cluster-admin privileges to use the aggregationRule"
    assert (aggregates if "aggregat" in attack and attack != "a label that aggregates" else told) in answer.json[
        "message"
    ]


def test_missing_role_cannot_be_bound(scene: Scene) -> None:
    """Else whoever creates it later grants it to them."""
    answer = scene.ask("POST", BINDINGS, binding("new", "not-yet"))
    assert (answer.status, answer.json["message"]) == (404, f'clusterroles.{GROUP} "not-yet" not found')


def test_deleted_default_role_comes_back_with_no_more_than_its_author_holds(scene: Scene) -> None:
    assert scene.ask("DELETE", f"{ROLES}/system:monitoring", {}).status == 200
    assert scene.ask("POST", ROLES, role("system:monitoring", MORE)).status == 403
    assert scene.ask("POST", ROLES, role("system:monitoring", HELD)).status == 201


def test_garbage_collection_and_what_one_holds_are_allowed(scene: Scene) -> None:
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "u"}
    for path, body in (
        (f"{ROLES}/more", {"metadata": {"finalizers": ["example.com/wait"]}}),
        (f"{ROLES}/more", {"metadata": {"finalizers": None, "ownerReferences": [owner]}}),
        (f"{BINDINGS}/others-more", {"metadata": {"ownerReferences": [owner]}}),
        (f"{ROLES}/held", {"metadata": {"labels": TO_VIEW}}),
    ):
        assert scene.ask("PATCH", path, body, MERGE).status == 200


def test_right_to_escalate_one_name_is_none_to_create_it(scene: Scene) -> None:
    """As upstream: the name of a POST is not known to authorization."""
    rule = {"apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["big"], "verbs": ["escalate"]}
    for path, body in ((ROLES, role("escalates", rule)), (BINDINGS, binding("mallory-escalates", "escalates"))):
        made = scene.client.ask("POST", path, json.dumps(body).encode(), {"Content-Type": JSON})
        assert made.status == 201
    big = json.dumps(role("big", HELD)).encode()
    assert scene.client.ask("POST", ROLES, big, {"Content-Type": JSON}).status == 201
    until("the role holds", lambda: scene.ask("PATCH", f"{ROLES}/big", {"rules": [MORE]}, MERGE), good=is_ok)
    assert scene.ask("DELETE", f"{ROLES}/big", {}).status == 200
    assert scene.ask("POST", ROLES, role("big", MORE)).status == 403
