"""Default roles and bindings, as objects without server-set metadata.

Missing rules are added to stored roles unless their autoupdate annotation disables it. Beside this file are upstream's
cluster roles of 1.36 with its default feature gates, and the rules for ResourceSlicePatches and DeviceTaintRules:
cluster_roles.txt has those of users and programs but for cluster-admin, controller_roles.txt those of
kube-controller-manager's controllers, each bound to the service account of its name. Read when roles are written.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from protocols.kinds.rbac.cover import uncovered
from protocols.kinds.rbac.policy_rule import GROUP, PolicyRule, read_rules

Rules = tuple[PolicyRule, ...]
CLUSTER_ROLES = Path(__file__).with_name("cluster_roles.txt")
CONTROLLER_ROLES = Path(__file__).with_name("controller_roles.txt")
PREFIX = "system:controller:"
"""Begin of the names of controllers' roles."""

SUBJECTS = {
    "cluster-admin": ("Group system:masters",),
    "system:discovery": ("Group system:authenticated",),
    "system:basic-user": ("Group system:authenticated",),
    "system:public-info-viewer": ("Group system:authenticated", "Group system:unauthenticated"),
    "system:monitoring": ("Group system:monitoring",),
    "system:service-account-issuer-discovery": ("Group system:serviceaccounts",),
    "system:kube-controller-manager": ("User system:kube-controller-manager",),
    "system:kube-dns": ("ServiceAccount kube-system/kube-dns",),
    "system:kube-scheduler": ("User system:kube-scheduler",),
    "system:volume-scheduler": ("User system:kube-scheduler",),
    "system:node-proxier": ("User system:kube-proxy",),
    "system:kubelet-api-admin": ("User kube-apiserver-kubelet-client",),
    "system:node": (),
}
"""Subjects by cluster role; a binding has the name of its role.

Upstream leaves system:kubelet-api-admin to installers; ours is bound to the user that the API server is for kubelets.
"""

NAMESPACE_ROLES = {
    "kube-public": """
system:controller:bootstrap-signer
    read core configmaps
    update core configmaps cluster-info
    events
""",
    "kube-system": """
extension-apiserver-authentication-reader
    read core configmaps extension-apiserver-authentication
system::leader-locking-kube-controller-manager
    create,read,update coordination.k8s.io leases
    create,read,update coordination.k8s.io leasecandidates
system::leader-locking-kube-scheduler
    create,read,update coordination.k8s.io leases
    create,read,update coordination.k8s.io leasecandidates
system:controller:bootstrap-signer
    read core secrets
system:controller:cloud-provider
    create,read core configmaps
system:controller:token-cleaner
    delete,read core secrets
    events
""",
}

READER = "extension-apiserver-authentication-reader"
NAMESPACE_SUBJECTS = {
    "system:controller:bootstrap-signer": ("ServiceAccount kube-system/bootstrap-signer",),
    READER: ("User system:kube-controller-manager", "User system:kube-scheduler"),
    "system::leader-locking-kube-controller-manager": (
        "User system:kube-controller-manager",
        "ServiceAccount kube-system/kube-controller-manager",
        "ServiceAccount kube-system/leader-election-controller",
    ),
    "system::leader-locking-kube-scheduler": (
        "User system:kube-scheduler",
        "ServiceAccount kube-system/kube-scheduler",
    ),
    "system:controller:cloud-provider": ("ServiceAccount kube-system/cloud-provider",),
    "system:controller:token-cleaner": ("ServiceAccount kube-system/token-cleaner",),
}
"""Subjects by role; a binding has the name of its role, but for BINDING_NAMES."""
BINDING_NAMES = {READER: "system::extension-apiserver-authentication-reader"}

VERBS = {
    "read": ("get", "list", "watch"),
    "write": ("create", "delete", "deletecollection", "patch", "update"),
    "all": ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
}
EVENTS = "create,patch,update core,events.k8s.io events"
CORE = "core"


def roles_of(text: str) -> dict[str, Rules]:
    """Return rules by role name, in the order of a table: a role per paragraph, a rule per indented line.

        NAME
            VERBS GROUPS RESOURCES [NAMES]
            VERBS /URL,...

    Lists have commas. `core` is the core group. `read`, `write` and `all` are sets of verbs,
    and `events` stands for the rule of everything that records events. Values are sorted, as upstream stores them.
    """
    roles: dict[str, list[PolicyRule]] = {}
    rules: list[PolicyRule] = []
    for line in text.strip().splitlines():
        if line.startswith(" "):
            rules.append(_rule(line.split()))
        else:
            rules = roles[line] = []
    return {name: tuple(held) for name, held in roles.items()}


def _rule(words: list[str]) -> PolicyRule:
    if words == ["events"]:
        words = EVENTS.split()
    verbs, second, *rest = words
    if second.startswith("/"):
        return PolicyRule(_sorted(_verbs(verbs)), urls=_sorted(second.split(",")))
    groups = ["" if group == CORE else group for group in second.split(",")]
    resources, *names = rest
    return PolicyRule(
        verbs=_sorted(_verbs(verbs)),
        groups=_sorted(groups),
        resources=_sorted(resources.split(",")),
        names=_sorted(names[0].split(",")) if names else (),
    )


def _verbs(text: str) -> Iterator[str]:
    for verb in text.split(","):
        yield from VERBS.get(verb, (verb,))


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(values))


LABEL = "kubernetes.io/bootstrapping"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
AGGREGATED_FROM = "system:aggregate-to-"
AGGREGATED = ("view", "edit", "admin")
"""Aggregated roles; each is aggregated into the next as well."""
ADMIN = (PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), urls=("*",)))


def default_objects() -> list[dict[str, Any]]:
    """Return ClusterRoles, ClusterRoleBindings, Roles and RoleBindings, in this order."""
    roles = {"cluster-admin": ADMIN, **roles_of(CLUSTER_ROLES.read_text("utf-8"))}
    controllers = roles_of(CONTROLLER_ROLES.read_text("utf-8"))
    return [
        *(_cluster_role(name, rules, _labels(name)) for name, rules in roles.items()),
        *_aggregated(roles),
        *(_cluster_role(f"{PREFIX}{name}", rules, {}) for name, rules in controllers.items()),
        *(_cluster_binding(role, subjects) for role, subjects in SUBJECTS.items()),
        *(_cluster_binding(f"{PREFIX}{name}", (f"ServiceAccount kube-system/{name}",)) for name in controllers),
        *_namespaced(),
    ]


def _aggregated(roles: dict[str, Rules]) -> Iterator[dict[str, Any]]:
    rules: Rules = ()
    for name, after in zip(AGGREGATED, (*AGGREGATED[1:], ""), strict=True):
        rules = (*roles[f"{AGGREGATED_FROM}{name}"], *rules)
        role = _cluster_role(name, rules, {f"{AGGREGATE}{after}": "true"} if after else {})
        yield {**role, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {f"{AGGREGATE}{name}": "true"}}]}}


def _namespaced() -> Iterator[dict[str, Any]]:
    tables = {namespace: roles_of(text) for namespace, text in NAMESPACE_ROLES.items()}
    for namespace, roles in tables.items():
        for name, rules in roles.items():
            yield {**_object("Role", name, namespace), "rules": [rule.as_object() for rule in rules]}
    for namespace, roles in tables.items():
        for name in roles:
            binding = _object("RoleBinding", BINDING_NAMES.get(name, name), namespace)
            yield {**binding, **_reference("Role", name), **_subjects(NAMESPACE_SUBJECTS[name])}


def _labels(name: str) -> dict[str, str]:
    level = name.removeprefix(AGGREGATED_FROM)
    return {f"{AGGREGATE}{level}": "true"} if level != name else {}


def _cluster_role(name: str, rules: Rules, labels: dict[str, str]) -> dict[str, Any]:
    role = _object("ClusterRole", name)
    role["metadata"]["labels"].update(labels)
    return {**role, "rules": [rule.as_object() for rule in rules]}


def _cluster_binding(role: str, subjects: Sequence[str]) -> dict[str, Any]:
    return {**_object("ClusterRoleBinding", role), **_reference("ClusterRole", role), **_subjects(subjects)}


def _reference(kind: str, role: str) -> dict[str, Any]:
    return {"roleRef": {"apiGroup": GROUP, "kind": kind, "name": role}}


def _subjects(subjects: Sequence[str]) -> dict[str, Any]:
    return {"subjects": [_subject(*subject.split()) for subject in subjects]} if subjects else {}


def _subject(kind: str, name: str) -> dict[str, str]:
    if kind != "ServiceAccount":
        return {"apiGroup": GROUP, "kind": kind, "name": name}
    namespace, _, account = name.partition("/")
    return {"kind": kind, "name": account, "namespace": namespace}


def _object(kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    metadata = {"name": name, **where, "labels": {LABEL: "rbac-defaults"}, "annotations": {AUTOUPDATE: "true"}}
    return {"kind": kind, "apiVersion": f"{GROUP}/v1", "metadata": metadata}


def missing_in(stored: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any] | None:
    """Return `stored` with missing rules or subjects added; None if complete or not auto-updated."""
    if ((stored.get("metadata") or {}).get("annotations") or {}).get(AUTOUPDATE) != "true":
        return None
    lacking = _lacking_subjects(stored, wanted) if "roleRef" in wanted else _lacking_rules(stored, wanted)
    field = "subjects" if "roleRef" in wanted else "rules"
    return {**stored, field: [*(stored.get(field) or []), *lacking]} if lacking else None


def _lacking_subjects(stored: dict[str, Any], wanted: dict[str, Any]) -> list[dict[str, Any]]:
    held = stored.get("subjects") or []
    return [subject for subject in wanted.get("subjects") or [] if subject not in held]


def _lacking_rules(stored: dict[str, Any], wanted: dict[str, Any]) -> list[dict[str, Any]]:
    held = read_rules(stored)
    known = frozenset(held)
    rules = (rule for rule in read_rules(wanted) if rule not in known)
    return [rule.as_object() for rule in rules if uncovered(held, (rule,))]
