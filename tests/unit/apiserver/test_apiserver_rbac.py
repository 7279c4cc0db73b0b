"""RBAC against a naive model: every binding, role and rule looked at for every question."""

import copy
import fnmatch
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.api.errors import Forbidden, NotFound, TooManyRequests, Unauthorized
from actors.apiserver.api.request.target import Attributes, Target
from actors.apiserver.api.request.user import User
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.authorization.node_rules import NodeRules
from actors.apiserver.authorization.rbac.policy import Policy
from actors.apiserver.authorization.rbac.rules import rule_allows
from actors.apiserver.table import TABLE
from actors.apiserver.writes.admission.admission import Admission
from actors.apiserver.writes.admission.rule import Dependencies, Step
from actors.apiserver.writes.change import Change
from protocols.kinds.rbac.cover import uncovered
from protocols.kinds.rbac.defaults import default_objects, missing_in
from protocols.kinds.rbac.policy_rule import PolicyRule
from protocols.kinds.shapes.clean import WrongType, clean
from protocols.kube.meta import Object

VERBS, GROUPS = ("get", "list", "create"), ("", "apps")
RESOURCES, NAMES, SPACES = ("pods", "pods/log", "secrets"), ("a", "b"), ("ns", "other")
URLS = ("/api", "/api/v1", "/metrics")
PEOPLE, TEAMS = ("ann", "bob", "system:serviceaccount:ns:bot"), ("dev", "ops")

star = st.just("*")


def some(values: Any) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values) | star, min_size=1, max_size=2)


resource_rules = st.fixed_dictionaries(
    {"verbs": some(VERBS), "apiGroups": some(GROUPS), "resources": some((*RESOURCES, "*/log"))},
    optional={"resourceNames": st.lists(st.sampled_from(NAMES), min_size=1, max_size=2)},
)
url_rules = st.fixed_dictionaries({"verbs": some(VERBS), "nonResourceURLs": some((*URLS, "/api/*", "/m*"))})
subjects = st.one_of(
    st.builds(lambda n: {"kind": "User", "name": n}, st.sampled_from(PEOPLE)),
    st.builds(lambda n: {"kind": "Group", "name": n}, st.sampled_from(TEAMS)),
    st.just({"kind": "ServiceAccount", "name": "bot", "namespace": "ns"}),
    st.just({"kind": "ServiceAccount", "name": "bot"}),
)
role_names = st.sampled_from(("r1", "r2"))


@st.composite
def objects(draw: st.DrawFn) -> Object:
    kind = draw(st.sampled_from(("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")))
    metadata: Object = {"name": draw(role_names)}
    if not kind.startswith("Cluster"):
        metadata["namespace"] = draw(st.sampled_from(SPACES))
    if kind.endswith("Binding"):
        role = "ClusterRole" if kind.startswith("Cluster") else draw(st.sampled_from(("Role", "ClusterRole")))
        body = {"roleRef": {"kind": role, "name": draw(role_names)}, "subjects": draw(st.lists(subjects, max_size=3))}
        return {"kind": kind, "metadata": metadata, **body}
    rules = resource_rules if kind == "Role" else resource_rules | url_rules
    found: Object = {"kind": kind, "metadata": metadata, "rules": draw(st.lists(rules, max_size=2))}
    if kind == "ClusterRole":
        metadata["labels"] = draw(st.sampled_from(({}, {"to": "x"}, {"to": "y"})))
        if draw(st.booleans()):
            label = draw(st.sampled_from("xy"))
            found["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {"to": label}}]}
    return found


def key_of(obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else str(metadata["name"])


users = st.builds(
    lambda name, groups: User(name, tuple(groups)), st.sampled_from(PEOPLE), st.sets(st.sampled_from(TEAMS))
)
questions = st.one_of(
    st.builds(
        lambda verb, group, resource, space, name: Attributes(
            verb, "/x", group, resource.partition("/")[0], resource.partition("/")[2], space, name
        ),
        st.sampled_from(VERBS),
        st.sampled_from(GROUPS),
        st.sampled_from(RESOURCES),
        st.sampled_from(("", *SPACES)),
        st.sampled_from(("", *NAMES)),
    ),
    st.builds(Attributes, st.sampled_from(VERBS), st.sampled_from(URLS)),
)


class Naive:
    """The rules as the documentation tells them, slow and plain."""

    def __init__(self, state: dict[tuple[str, str], Object]) -> None:
        self.state = state

    def allows(self, user: User, wanted: Attributes) -> bool:
        for (kind, _), binding in self.state.items():
            space = binding["metadata"].get("namespace", "")
            if not kind.endswith("Binding") or (space and (not wanted.resource or space != wanted.namespace)):
                continue
            if not any(self.is_subject(user, subject, space) for subject in binding["subjects"]):
                continue
            role = binding["roleRef"]
            key = role["name"] if role["kind"] == "ClusterRole" else f"{space}/{role['name']}"
            if any(self.rule_allows(rule, wanted) for rule in self.rules(role["kind"], key, frozenset())):
                return True
        return False

    def is_subject(self, user: User, subject: Object, space: str) -> bool:
        if subject["kind"] == "Group":
            return subject["name"] in user.groups
        if subject["kind"] == "User":
            return bool(subject["name"] == user.name)
        where = subject.get("namespace", space)
        return bool(where) and user.name == f"system:serviceaccount:{where}:{subject['name']}"

    def rules(self, kind: str, key: str, above: frozenset[str]) -> list[Object]:
        role = self.state.get((kind, key))
        if role is None or key in above:
            return []
        if "aggregationRule" not in role:
            return list(role["rules"])
        wanted = role["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"]["to"]
        return [
            rule
            for (other, name), each in self.state.items()
            if other == "ClusterRole" and each["metadata"].get("labels", {}).get("to") == wanted
            for rule in self.rules("ClusterRole", name, above | {key})
        ]

    def rule_allows(self, rule: Object, wanted: Attributes) -> bool:
        if not any(verb in ("*", wanted.verb) for verb in rule["verbs"]):
            return False
        if not wanted.resource:
            return any(fnmatch.fnmatchcase(wanted.path, url) for url in rule.get("nonResourceURLs", ()))
        if not any(group in ("*", wanted.group) for group in rule.get("apiGroups", ())):
            return False
        full = wanted.full_resource
        either = {"*", full, f"*/{wanted.subresource}" if wanted.subresource else full}
        if not either & set(rule.get("resources", ())):
            return False
        return "resourceNames" not in rule or wanted.name in rule["resourceNames"]


@given(st.lists(st.tuples(st.booleans(), objects()), max_size=14), users, st.lists(questions, min_size=1, max_size=6))
def test_decisions_equal_the_naive_model(
    changes: list[tuple[bool, Object]], user: User, asked: list[Attributes]
) -> None:
    """Objects come, change and go; the indexes must never tell another story than the objects."""
    policy, state = Policy(), dict[tuple[str, str], Object]()
    for gone, obj in changes:
        kind, key = obj["kind"], key_of(obj)
        if gone:
            state.pop((kind, key), None)
            policy.remove(kind, key)
        else:
            state[kind, key] = obj
            policy.put(kind, key, obj)
        policy.decide(user, asked[0])  # fills the memory of aggregated rules, which the next change must empty
    naive = Naive(state)
    for wanted in asked:
        assert policy.decide(user, wanted).allowed is naive.allows(user, wanted), (state, wanted)


def test_bindings_of_nobody_come_and_go() -> None:
    """Beside one another, and beside one of somebody: they hold no place that another could free."""
    policy = Policy()
    reference = {"kind": "ClusterRole", "name": "r"}
    for name, subjects in (("one", []), ("two", []), ("three", [{"kind": "User", "name": "ann"}])):
        policy.put(
            "RoleBinding",
            f"ns/{name}",
            {"metadata": {"name": name, "namespace": "ns"}, "roleRef": reference, "subjects": subjects},
        )
    for name in ("one", "three", "two", "one"):
        policy.remove("RoleBinding", f"ns/{name}")


def rule_of(obj: Object) -> PolicyRule:
    fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    return PolicyRule(*(tuple(obj.get(field, ())) for field in fields))


rules = st.lists((resource_rules | url_rules).map(rule_of), max_size=4)


@given(rules, rules, st.lists(questions, max_size=8))
def test_nobody_grants_more_than_they_hold(held: list[PolicyRule], granted: list[PolicyRule], asked: Any) -> None:
    """When nothing is uncovered, no question is allowed by the granted rules that the held ones refuse."""
    assert uncovered(held, held) == ()
    assert uncovered((PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), urls=("*",))), granted) == ()
    if uncovered(held, granted):
        return
    for wanted in asked:
        if any(rule_allows(rule, wanted) for rule in granted):
            assert any(rule_allows(rule, wanted) for rule in held)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda c: (
            st.lists(c, max_size=3)
            | st.dictionaries(
                st.sampled_from(("kind", "name", "verbs", "labels", "matchLabels", "clusterRoleSelectors")), c
            )
        ),
    )
)
def test_malformed_objects_grant_nothing(odd: Any) -> None:  # fmt: skip
    policy = Policy()
    for number, field in enumerate(("rules", "subjects", "roleRef", "aggregationRule", "metadata")):
        for kind in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"):
            policy.put(kind, str(number), {field: odd})
    assert not policy.decide(User("ann", ("dev",)), Attributes("get", "/x", resource="pods")).allowed


def nothing(_key: str) -> Object | None:
    return None


def node_rules() -> NodeRules:
    return NodeRules(nothing, nothing, lambda *_question: False)


def defaults() -> Policy:
    policy = Policy()
    for obj in default_objects():
        policy.put(obj["kind"], key_of(obj), obj)
    return policy


ANN = User("ann", ("system:authenticated",))


def bind(policy: Policy, role: str, user: str, namespace: str = "") -> None:
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    metadata = {"name": f"{role}-{user}", **({"namespace": namespace} if namespace else {})}
    reference = {"kind": "ClusterRole", "name": role}
    obj = {"metadata": metadata, "roleRef": reference, "subjects": [{"kind": "User", "name": user}]}
    policy.put(kind, key_of(obj), obj)


@pytest.mark.parametrize(
    ("role", "verb", "resource", "allowed"),
    [
        ("view", "list", "pods", True),
        ("view", "create", "pods", False),
        ("view", "get", "secrets", False),
        ("edit", "create", "pods", True),
        ("edit", "get", "secrets", True),
        ("edit", "create", "roles", False),
        ("admin", "create", "roles", True),
        ("admin", "get", "pods", True),
        ("cluster-admin", "delete", "nodes", True),
    ],
)
def test_default_roles(role: str, verb: str, resource: str, allowed: bool) -> None:
    policy = defaults()
    bind(policy, role, "ann", "ns")
    group = "rbac.authorization.k8s.io" if resource == "roles" else ""
    authorizer = Authorizer(node_rules(), lambda: policy)
    assert authorizer.allows(ANN, Attributes(verb, "", group, resource, "", "ns")) is allowed
    assert not authorizer.allows(ANN, Attributes(verb, "", group, resource, "", "other"))
    assert not authorizer.allows(ANN, Attributes(verb, "", group, resource))


def test_everybody_known_may_discover_and_ask_about_themselves() -> None:
    authorizer = Authorizer(node_rules(), defaults)
    for path in ("/api", "/apis/apps/v1", "/openapi/v3", "/version", "/healthz"):
        authorizer.check(ANN, Attributes("get", path))
    authorizer.check(ANN, Attributes("create", "", "authorization.k8s.io", "selfsubjectaccessreviews"))
    for path in ("/metrics", "/openid/v1/jwks", "/"):
        with pytest.raises(Forbidden):
            authorizer.check(ANN, Attributes("get", path))
    account = User("system:serviceaccount:ns:bot", ("system:serviceaccounts", "system:authenticated"))
    authorizer.check(account, Attributes("get", "/openid/v1/jwks"))


def test_rules_not_yet_loaded_are_no_denial() -> None:
    authorizer = Authorizer(node_rules(), lambda: None)
    with pytest.raises(TooManyRequests):
        authorizer.check(ANN, Attributes("list", "", resource="pods"))
    with pytest.raises(Unauthorized):
        authorizer.check(User("system:anonymous"), Attributes("list", "", resource="pods"))
    authorizer.check(User("root", ("system:masters",)), Attributes("list", "", resource="pods"))
    authorizer.check(User("system:kube-scheduler"), Attributes("list", "", resource="pods"))


def granting(name: str, verbs: list[str], resources: list[str]) -> Object:
    return {"metadata": {"name": name}, "rules": [{"verbs": verbs, "apiGroups": [""], "resources": resources}]}


async def test_role_that_another_process_has_stored_can_be_bound_at_once() -> None:
    policy = defaults()
    bind(policy, "admin", "ann", "ns")

    async def newest_roles() -> None:
        policy.put("Role", "ns/new", granting("new", ["get"], ["pods"]))

    given = Dependencies(Authorizer(node_rules(), lambda: policy), nothing, newest_roles=newest_roles)
    new = {"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "new"}}
    change = Change(Target(TABLE.of("rolebindings"), "create", "ns"), ANN, new=new)
    rules = Admission(given).rules(change)
    await rules.run(Step.COMPLETE, change)
    await rules.check_author(change, 0)


async def test_roles_and_bindings_that_would_raise_their_author() -> None:
    policy = defaults()
    bind(policy, "admin", "ann", "ns")
    admission = Admission(Dependencies(Authorizer(node_rules(), lambda: policy), nothing))

    async def check(target: Target, new: Object, old: Object | None = None) -> None:
        change = Change(target, ANN, old=old, new=new)
        await admission.rules(change).check_author(change, 0)

    roles, bindings = (Target(TABLE.of(name), "create", "ns") for name in ("roles", "rolebindings"))
    await check(roles, granting("fine", ["get"], ["pods", "pods/log"]))
    with pytest.raises(Forbidden) as caught:
        await check(roles, granting("more", ["get", "delete"], ["pods", "nodes"]))
    assert str(caught.value) == (
        'roles.rbac.authorization.k8s.io "more" is forbidden: user "ann" (groups=["system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "delete"]}'
    )

    cluster, rule = Target(TABLE.of("clusterroles"), "create"), {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    with pytest.raises(Forbidden, match='"a" is forbidden: must have cluster-admin privileges to use the aggregationR'):
        await check(cluster, {"metadata": {"name": "a"}, "aggregationRule": rule, "rules": []})
    await check(cluster, {"metadata": {"name": "a"}, "aggregationRule": {}, "rules": []})  # validation reports it

    def binding(role: str) -> Object:
        subject = {"kind": "User", "name": "bob"}
        return {"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [subject]}

    await check(bindings, binding("view"))
    with pytest.raises(Forbidden):
        await check(bindings, binding("cluster-admin"))
    with pytest.raises(NotFound):
        await check(bindings, binding("nowhere"))
    fine = Target(TABLE.of("roles"), "update", "ns", "fine")
    await check(fine, {**granting("fine", ["get"], ["nodes"]), "rules": []}, granting("fine", ["get"], ["nodes"]))
    with pytest.raises(Forbidden):
        await check(fine, granting("fine", ["*"], ["*"]), granting("fine", ["get"], ["pods"]))


def test_default_roles_are_extended_unless_opted_out() -> None:
    wanted = next(obj for obj in default_objects() if obj["metadata"]["name"] == "system:basic-user")
    assert missing_in(wanted, wanted) is None
    fewer = {**wanted, "rules": wanted["rules"][:1]}
    assert missing_in(fewer, wanted) == wanted
    assert missing_in({**fewer, "metadata": {"annotations": {}}}, wanted) is None


ROLE_X = {"kind": "Role", "name": "x"}


@pytest.mark.parametrize(
    ("plural", "body", "field"),
    [
        ("roles", {"rules": [{"apiGroups": [""], "resources": ["pods"]}]}, "rules[0].verbs"),
        ("roles", {"rules": [{"verbs": ["get"], "resources": ["pods"]}]}, "rules[0].apiGroups"),
        ("roles", {"rules": [{"verbs": ["get"], "apiGroups": [""]}]}, "rules[0].resources"),
        ("roles", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}, "rules[0].nonResourceURLs"),
        ("clusterroles", {"aggregationRule": {}}, "aggregationRule.clusterRoleSelectors"),
        ("rolebindings", {}, "roleRef.name"),
        ("rolebindings", {"roleRef": {"kind": "Pod", "name": "x"}}, "roleRef.kind"),
        ("clusterrolebindings", {"roleRef": ROLE_X}, "roleRef.kind"),
        ("rolebindings", {"roleRef": {"kind": "Role", "name": ""}}, "roleRef.name"),
        ("rolebindings", {"roleRef": ROLE_X, "subjects": [{"kind": "Pod", "name": "y"}]},
         "subjects[0].kind"),
        ("rolebindings", {"roleRef": ROLE_X, "subjects": [{"kind": "ServiceAccount", "name": "Y"}]},
         "subjects[0].name"),
        ("rolebindings", {"roleRef": ROLE_X, "subjects": [{"kind": "User"}]}, "subjects[0].name"),
    ],
)  # fmt: skip
def test_validation_of_roles_and_bindings(plural: str, body: Object, field: str) -> None:
    strategy = TABLE.of(plural).strategy
    strategy.default(body := copy.deepcopy(body))
    assert field in {cause.field for cause in strategy.validate_create(body)}


@pytest.mark.parametrize("rules", ["all", [{"verbs": "get"}]])
def test_rules_of_another_type_are_rejected_before_validation(rules: Any) -> None:
    shape = TABLE.of("roles").shape
    assert shape is not None
    with pytest.raises(WrongType):
        clean({"rules": rules}, shape)


def test_a_binding_keeps_its_role() -> None:
    strategy = TABLE.of("rolebindings").strategy
    old: Object = {"roleRef": {"kind": "Role", "name": "x"}, "subjects": []}
    strategy.default(old)
    new = {"roleRef": {**old["roleRef"], "name": "y"}, "subjects": []}
    assert strategy.validate_update(new, old)[0].message.endswith("cannot change roleRef")
