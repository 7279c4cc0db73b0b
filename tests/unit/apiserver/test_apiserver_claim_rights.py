"""Rights to parts of a claim's status: whoever allocates, drivers of a node, and controllers of any node."""

from typing import Any

import pytest

from actors.apiserver.api.errors import Invalid
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.user import NODE_NAME, User
from actors.apiserver.authorization.authorizer import USERS, Authorizer
from actors.apiserver.authorization.node_rules import NodeRules
from actors.apiserver.authorization.rbac.policy import Policy
from actors.apiserver.table import TABLE
from actors.apiserver.writes.admission.claims import ClaimRights, allocated_node, changed_drivers, runs_on
from actors.apiserver.writes.admission.rule import Dependencies
from actors.apiserver.writes.change import Change
from protocols.kube.meta import Object, key_of

BOT = "system:serviceaccount:ns:bot"


def selecting(*names: str, **more: Any) -> Object:
    field = {"key": "metadata.name", "operator": "In", "values": list(names), **more}
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}


def row(device: str = "d0", driver: str = "a.example.com", **more: Any) -> Object:
    return {"driver": driver, "pool": "p", "device": device, **more}


def status(*devices: Object, results: Any = (), node: str = "n1", **more: Any) -> Object:
    allocation = {"allocation": {"devices": {"results": list(results)}, **selecting(node)}} if results else {}
    return {**allocation, **({"devices": list(devices)} if devices else {}), **more}


def bot(*nodes: str) -> User:
    return User(BOT, ("system:authenticated",), "", ((NODE_NAME, nodes),) if nodes else ())


def granted(verbs: str, resource: str, *names: str, cluster: bool = False) -> list[Object]:
    rule: Object = {"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": verbs.split()}
    if names:
        rule["resourceNames"] = list(names)
    kind = "Cluster" if cluster else ""
    metadata = {"name": "r"} if cluster else {"name": "r", "namespace": "ns"}
    subject = {"kind": "ServiceAccount", "name": "bot", "namespace": "ns"}
    return [
        {
            "kind": f"{kind}Role",
            "metadata": metadata,
            "rules": [{**rule, **({"resourceNames": names} if names else {})}],
        },
        {
            "kind": f"{kind}RoleBinding",
            "metadata": metadata,
            "roleRef": {"kind": f"{kind}Role", "name": "r"},
            "subjects": [subject],
        },
    ]


def rule_with(rules: list[Object], gate: bool = True) -> ClaimRights:
    policy = Policy()
    for rule in rules:
        policy.put(rule["kind"], key_of(rule), rule)
    nodes = NodeRules(nothing, nothing, lambda *_question: False)
    return ClaimRights(Dependencies(Authorizer(nodes, lambda: policy), nothing, claim_rights=gate))


def nothing(_key: str) -> Object | None:
    return None


def written(user: User, rules: list[Object], new: Object, old: Object, verb: str = "update", gate: bool = True) -> str:
    """Return the causes of the rejection, or ""."""
    target = Target(TABLE.of("resourceclaims"), verb, "ns", "c", "status")
    metadata = {"name": "c", "namespace": "ns"}
    before, after = ({"metadata": metadata, "status": each} for each in (old, new))
    rule, change = rule_with(rules, gate), Change(target, user, old=before, new=after)
    if not rule.concerns(change):
        return ""
    try:
        rule.apply(change)
    except Invalid as fault:
        return "\n".join(f"{cause['field']}: {cause['message']}" for cause in fault.status["details"]["causes"])
    return ""


ALLOCATED = status(results=[row()])
CHANGED = status(row(), results=[row()])
BINDING = granted("update", "resourceclaims/binding", cluster=True)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (ALLOCATED, {}),
        ({}, ALLOCATED),
        (status(results=[row()], node="n2"), ALLOCATED),
        (status(results=[row()], reservedFor=[{"resource": "pods", "name": "p", "uid": "u"}]), ALLOCATED),
    ],
)
def test_allocation_and_consumers_need_the_binding_right_in_the_cluster(new: Object, old: Object) -> None:
    assert written(bot(), [], new, old) == (
        "status: Forbidden: changing status.allocation or status.reservedFor requires"
        ' resource="resourceclaims/binding", verb="update" permission: resourceclaims.resource.k8s.io is forbidden:'
        f' User "{BOT}" cannot update resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster'
        " scope"
    )
    assert "binding" in written(bot(), granted("update", "resourceclaims/binding"), new, old)
    assert written(bot(), BINDING, new, old) == ""
    assert "binding" in written(bot(), BINDING, new, old, verb="patch")
    assert written(bot(), [], new, old, gate=False) == ""


def test_nothing_changed_needs_nothing() -> None:
    assert written(bot(), [], {**CHANGED, "reservedFor": []}, CHANGED) == ""


LOCAL = granted("associated-node:update", "resourceclaims/driver", "a.example.com")
ANYWHERE = granted("arbitrary-node:update", "resourceclaims/driver", "a.example.com")


def test_driver_writes_devices_of_its_own_node_only() -> None:
    assert written(bot("n1"), LOCAL, CHANGED, ALLOCATED) == ""
    elsewhere = (status(row(), results=[row()], node="n2"), status(results=[row()], node="n2"))
    assert 'verb="[arbitrary-node:update]"' in written(bot("n1"), LOCAL, *elsewhere)
    assert 'verb="[arbitrary-node:update]"' in written(bot(), LOCAL, CHANGED, ALLOCATED)
    assert written(bot("n1"), ANYWHERE, *elsewhere) == ""
    assert written(bot(), ANYWHERE, CHANGED, ALLOCATED) == ""
    assert written(bot("n1"), ANYWHERE, CHANGED, ALLOCATED) == ""


def test_denied_driver_is_told_both_verbs() -> None:
    assert written(bot("n1"), [], CHANGED, ALLOCATED) == (
        'status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver",'
        ' verb="[associated-node:update arbitrary-node:update]" permission: resourceclaims.resource.k8s.io'
        f' "a.example.com" is forbidden: User "{BOT}" cannot associated-node:update resource "resourceclaims/driver" in'
        ' API group "resource.k8s.io" in the namespace "ns"'
    )


def test_driver_writes_only_its_own_entries() -> None:
    other = row(driver="b.example.com")
    both = [row(), other]
    found = written(bot("n1"), LOCAL, status(*both, results=both), status(results=both))
    assert found.count("status.devices: Forbidden") == 1
    assert '"b.example.com" is forbidden' in found
    changed = status(row(conditions=[{"type": "Ready"}]), other, results=both)
    assert written(bot("n1"), LOCAL, changed, status(*both, results=both)) == ""
    assert "b.example.com" in written(bot("n1"), LOCAL, status(row(), results=both), status(*both, results=both))


def test_deallocation_takes_its_device_entries_with_it() -> None:
    assert written(bot(), BINDING, {}, CHANGED) == ""
    assert changed_drivers({}, CHANGED) == []
    assert changed_drivers(ALLOCATED, CHANGED) == ["a.example.com"]


def test_users_of_the_plane_may_allocate_and_release() -> None:
    for name in USERS:
        user = User(name, ("system:authenticated",))
        assert written(user, [], ALLOCATED, {}) == ""
        assert written(user, [], {}, CHANGED) == ""
        assert "status.devices" in written(user, [], CHANGED, ALLOCATED)


@pytest.mark.parametrize(
    ("allocation", "node"),
    [
        ({}, ""),
        (selecting("n1"), "n1"),
        (selecting("n1", "n2"), ""),
        (selecting("n1", operator="NotIn"), ""),
        (selecting("n1", key="metadata.namespace"), ""),
        ({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}}, ""),
        ({"nodeSelector": {"nodeSelectorTerms": 2 * selecting("n1")["nodeSelector"]["nodeSelectorTerms"]}}, ""),
    ],
)
def test_node_of_an_allocation_is_known_only_if_it_is_one(allocation: Object, node: str) -> None:
    assert allocated_node({"allocation": allocation}) == node


@pytest.mark.parametrize(
    ("user", "node", "there"),
    [
        (bot("n1"), "n1", True),
        (bot("n1"), "n2", False),
        (bot("n1"), "", False),
        (bot("n1", "n2"), "n1", False),
        (bot("bad_name"), "bad_name", False),
        (User("system:node:n1", (), "", ((NODE_NAME, ("n1",)),)), "n1", False),
        (User("jane", (), "", ((NODE_NAME, ("n1",)),)), "n1", False),
    ],
)
def test_only_service_accounts_bound_to_the_node_run_there(user: User, node: str, there: bool) -> None:
    assert runs_on(user, node) is there
