"""The list of admission rules, and the rule that CONTRIBUTING.md adds to it."""

import re
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, cast

import pytest

from actors.apiserver.api.errors import Forbidden
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.user import User
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.table import TABLE
from actors.apiserver.writes.admission import admission
from actors.apiserver.writes.admission.admission import RULES, Admission
from actors.apiserver.writes.admission.rule import Dependencies, Rule, Step
from actors.apiserver.writes.admission.volume_claims import DefaultStorageClass, growth_fault
from actors.apiserver.writes.change import CREATE, DELETE, Change
from protocols.kube.meta import Object

PAGE = Path(__file__).parents[3] / "CONTRIBUTING.md"
GIVEN = Dependencies(cast(Authorizer, None), lambda name: None)


def documented() -> type[Rule]:
    """Return the rule of the page, from its own text."""
    section = PAGE.read_text().split("\n## An admission rule\n", 1)[1]
    block = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {}
    exec(block[1], names)
    rule: type[Rule] = names["TeamLabels"]
    return rule


async def admit(monkeypatch: pytest.MonkeyPatch, resource: str, verb: str, labels: Object, old: Object | None) -> None:
    monkeypatch.setattr(admission, "RULES", (*RULES, documented()))
    new = {"metadata": {"name": "web", "labels": labels}}
    change = Change(Target(TABLE.of(resource), verb, "ns"), User("ann"), old=old, new=new)
    await Admission(GIVEN).rules(change).run(Step.CHECK_VALID, change)


async def test_rule_of_the_page_rejects_pods_without_a_team(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Forbidden, match=r'^pods "web" is forbidden: the label team is missing$'):
        await admit(monkeypatch, "pods", "create", {}, None)
    with pytest.raises(Forbidden, match=r'^pods "web" is forbidden'):
        await admit(monkeypatch, "pods", "patch", {}, {"metadata": {"name": "web"}})
    await admit(monkeypatch, "pods", "create", {"team": "a"}, None)


async def test_rule_of_the_page_leaves_other_kinds_and_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    await admit(monkeypatch, "configmaps", "create", {}, None)
    await admit(monkeypatch, "deployments", "update", {}, {"metadata": {"name": "web"}})
    await admit(monkeypatch, "pods", "delete", {}, {"metadata": {"name": "web"}})


def test_rules_stand_in_the_order_of_their_steps() -> None:
    assert [rule.step for rule in RULES] == sorted(rule.step for rule in RULES)
    names = [rule.__name__ for rule in RULES]
    upstream = ["LimitDefaults", "ServiceAccounts", "Priority", "RuntimeClasses", "Mutating", "Limits",
                "ValidatingPolicies", "ValidatingWebhooks", "Quotas"]  # fmt: skip
    assert [name for name in names if name in upstream] == upstream


def test_rules_of_the_author_never_wait() -> None:
    """They are computed in a thread, which has no event loop."""
    assert [rule for rule in RULES if rule.step == Step.CHECK_AUTHOR and iscoroutinefunction(rule.apply)] == []


def test_change_shows_what_its_author_sends() -> None:
    obj = {"metadata": {"name": "a"}}
    row = TABLE.of("pods")
    assert Change(Target(row, "create", "ns"), User("u"), new=obj).sent is obj
    assert Change(Target(row, "patch", "ns", "a"), User("u"), old={}, new=obj).sent is obj
    removal = Change(Target(row, "delete", "ns", "a"), User("u"), old=obj, new=obj)
    assert (removal.operation, removal.sent, removal.attributes.verb) == (DELETE, {}, "delete")
    binding = Change(Target(row, "create", "ns", "a", "binding"), User("u"), old=obj, new=obj)
    assert (binding.operation, binding.sent, binding.attributes.verb) == (CREATE, {}, "create")
    put = Change(Target(row, "update", "ns", "a"), User("u"), operation=CREATE, new=obj)
    assert (put.sent, put.attributes.verb) == (obj, "create")


@pytest.mark.parametrize(
    ("part", "body", "labels"),
    [
        ("", {"spec": {"nodeName": "n1"}}, {"topology.kubernetes.io/zone": "z"}),
        ("", {"spec": {}}, {}),
        ("binding", {"target": {"kind": "Node", "name": "n1"}}, {"topology.kubernetes.io/zone": "z"}),
        ("binding", {"target": {"kind": "Node", "name": "n2"}}, {}),
    ],
)
async def test_pod_gets_the_topology_labels_of_its_node(part: str, body: Object, labels: Object) -> None:
    node: Object = {"metadata": {"labels": {"topology.kubernetes.io/zone": "z", "other": "x"}}}
    given = Dependencies(cast(Authorizer, None), {"n1": node}.get)
    change = Change(Target(TABLE.of("pods"), "create", "ns", "p", part), User("ann"), new={"metadata": {}, **body})
    if part:
        await Admission(given).review(change)
    else:
        await Admission(given).rules(change).run(Step.COMPLETE, change)
    assert change.sent["metadata"].get("labels", {}) == labels


def storage_class(name: str, made: int, *, default: str = "true", grows: bool = False) -> Object:
    annotations = {"storageclass.kubernetes.io/is-default-class": default}
    metadata = {"name": name, "creationTimestamp": f"2026-01-0{made}T00:00:00Z", "annotations": annotations}
    return {"metadata": metadata, "allowVolumeExpansion": grows}


CLASSES = [storage_class("b", 2), storage_class("a", 2), storage_class("old", 1), storage_class("no", 3, default="")]


@pytest.mark.parametrize(
    ("classes", "spec", "named"),
    [(CLASSES, {}, "a"), (CLASSES, {"storageClassName": ""}, ""), ([], {}, None), (CLASSES[3:], {}, None)],
)
def test_claim_without_a_class_gets_the_newest_default(classes: list[Object], spec: Object, named: str | None) -> None:
    given = Dependencies(cast(Authorizer, None), lambda name: None, storage_classes=lambda: classes)
    change = Change(Target(TABLE.of("persistentvolumeclaims"), "create", "ns"), User("ann"), new={"spec": dict(spec)})
    DefaultStorageClass(given).apply(change)
    assert change.sent["spec"].get("storageClassName") == named


@pytest.mark.parametrize(
    ("size", "phase", "grows", "fault"),
    [
        ("2Gi", "Bound", True, ""),
        ("1024Mi", "Pending", False, ""),
        ("2Gi", "Pending", True, "Only bound persistent volume claims can be expanded"),
        ("2Gi", "Bound", False, "only dynamically provisioned pvc can be resized"),
    ],
)
def test_claim_grows_if_it_is_bound_and_its_class_allows_it(size: str, phase: str, grows: bool, fault: str) -> None:
    def claim(amount: str) -> Object:
        spec = {"storageClassName": "a", "resources": {"requests": {"storage": amount}}}
        return {"spec": spec, "status": {"phase": phase}}

    found = growth_fault(claim(size), claim("1Gi"), [storage_class("a", 1, grows=grows)])
    assert found.startswith(fault) if fault else not found
