"""Default roles and bindings for the resources that nodeplane serves.

Missing rules are added to stored roles unless their autoupdate annotation disables it.
"""

from typing import Any

from actors.apiserver.authorization.rbac.rules import GROUP, PolicyRule

LABEL = "kubernetes.io/bootstrapping"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "deletecollection", "patch", "update")
ALL = (*WRITE, *READ)
AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
DRA, LEASES = "resource.k8s.io", "coordination.k8s.io"
HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")
DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
CONNECT = ("pods/attach", "pods/exec", "pods/portforward")
CLAIMS = ("resourceclaims", "resourceclaimtemplates")


def on(group: str, resources: tuple[str, ...], verbs: tuple[str, ...]) -> PolicyRule:
    return PolicyRule(verbs, (group,), resources)


EVERYTHING = (on("*", ("*",), ("*",)), PolicyRule(("*",), urls=("*",)))
VIEW = (
    on("", ("configmaps", "events", "namespaces", "namespaces/status", "pods", "serviceaccounts"), READ),
    on("", ("endpoints", "persistentvolumeclaims", "persistentvolumeclaims/status", "services"), READ),
    on("", ("pods/log", "pods/status", "services/status"), READ),
    on("discovery.k8s.io", ("endpointslices",), READ),
    on("events.k8s.io", ("events",), READ),
    on(LEASES, ("leases",), READ),
    on(DRA, (*CLAIMS, "resourceclaims/status"), READ),
)
EDIT = (
    on("", (*CONNECT, "secrets"), READ),
    on("", ("serviceaccounts",), ("impersonate",)),
    on("", ("configmaps", "events", "pods", "secrets", "serviceaccounts", *CONNECT), WRITE),
    on("", ("endpoints", "persistentvolumeclaims", "services"), WRITE),
    on("", ("pods/eviction", "serviceaccounts/token"), ("create",)),
    on(LEASES, ("leases",), ALL),
    on(DRA, CLAIMS, WRITE),
)
ADMIN = (
    on(AUTHORIZATION, ("localsubjectaccessreviews",), ("create",)),
    on(GROUP, ("rolebindings", "roles"), ALL),
)
NODE = (
    on(AUTHENTICATION, ("tokenreviews",), ("create",)),
    on(AUTHORIZATION, ("localsubjectaccessreviews", "subjectaccessreviews"), ("create",)),
    on("", ("nodes",), ("create", "get", "list", "watch", "patch", "update")),
    on("", ("nodes/status",), ("patch", "update")),
    on("", ("events",), ("create", "patch", "update")),
    on("events.k8s.io", ("events",), ("create", "patch", "update")),
    on("", ("pods",), (*READ, "create", "delete")),
    on("", ("pods/status",), ("patch", "update")),
    on("", ("pods/eviction", "serviceaccounts/token"), ("create",)),
    on("", ("configmaps", "secrets"), READ),
    on("", ("serviceaccounts",), ("get",)),
    on(LEASES, ("leases",), ("create", "delete", "get", "patch", "update")),
    on(DRA, ("resourceclaims",), ("get",)),
    on(DRA, ("resourceslices",), ALL),
)
ROLES: dict[str, tuple[PolicyRule, ...]] = {
    "cluster-admin": EVERYTHING,
    "system:discovery": (PolicyRule(("get",), urls=(*DISCOVERY, *HEALTH)),),
    "system:public-info-viewer": (PolicyRule(("get",), urls=HEALTH),),
    "system:monitoring": (PolicyRule(("get",), urls=("/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics",
                                                     "/metrics/slis", "/readyz", "/readyz/*")),),
    "system:basic-user": (
        on(AUTHORIZATION, ("selfsubjectaccessreviews", "selfsubjectrulesreviews"), ("create",)),
        on(AUTHENTICATION, ("selfsubjectreviews",), ("create",)),
    ),
    "system:auth-delegator": (
        on(AUTHENTICATION, ("tokenreviews",), ("create",)),
        on(AUTHORIZATION, ("subjectaccessreviews",), ("create",)),
    ),
    "system:service-account-issuer-discovery": (
        PolicyRule(("get",), urls=("/.well-known/openid-configuration", "/openid/v1/jwks")),
    ),
    "system:kubelet-api-admin": (
        on("", ("nodes",), READ),
        on("", ("nodes",), ("proxy",)),
        on("", ("nodes/log", "nodes/metrics", "nodes/proxy", "nodes/stats"), ("*",)),
    ),
    "system:node": NODE,
    "system:aggregate-to-view": VIEW,
    "system:aggregate-to-edit": EDIT,
    "system:aggregate-to-admin": ADMIN,
}  # fmt: skip
AGGREGATED = {"view": VIEW, "edit": (*EDIT, *VIEW), "admin": (*ADMIN, *EDIT, *VIEW)}
"""Initial rules of aggregated roles; each role is also aggregated into the next."""
NEXT = {"view": "edit", "edit": "admin"}
BINDINGS: dict[str, tuple[str, ...]] = {
    "cluster-admin": ("system:masters",),
    "system:discovery": ("system:authenticated",),
    "system:basic-user": ("system:authenticated",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
    "system:monitoring": ("system:monitoring",),
    "system:service-account-issuer-discovery": ("system:serviceaccounts",),
    "system:node": (),
}
"""Groups by role; a binding has the name of its role."""


def default_objects() -> list[dict[str, Any]]:
    """Return ClusterRoles and ClusterRoleBindings without server-set metadata."""
    roles = [_role(name, rules, _labels(name)) for name, rules in ROLES.items()]
    for name, rules in AGGREGATED.items():
        labels = {f"{AGGREGATE}{NEXT[name]}": "true"} if name in NEXT else {}
        selectors = [{"matchLabels": {f"{AGGREGATE}{name}": "true"}}]
        gathered = {"aggregationRule": {"clusterRoleSelectors": selectors}}
        roles.append({**_role(name, rules, labels), **gathered})
    return [*roles, *(_binding(role, groups) for role, groups in BINDINGS.items())]


def _labels(name: str) -> dict[str, str]:
    level = name.removeprefix("system:aggregate-to-")
    return {f"{AGGREGATE}{level}": "true"} if level != name else {}


def _role(name: str, rules: tuple[PolicyRule, ...], labels: dict[str, str]) -> dict[str, Any]:
    return {**_object("ClusterRole", name, labels), "rules": [rule.as_object() for rule in rules]}


def _binding(role: str, groups: tuple[str, ...]) -> dict[str, Any]:
    subjects = [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups]
    return {
        **_object("ClusterRoleBinding", role, {}),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        **({"subjects": subjects} if subjects else {}),
    }


def _object(kind: str, name: str, labels: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "labels": {LABEL: "rbac-defaults", **labels}, "annotations": {AUTOUPDATE: "true"}}
    return {"kind": kind, "apiVersion": f"{GROUP}/v1", "metadata": metadata}


def missing_in(stored: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any] | None:
    """Return `stored` with missing rules or subjects added; None if complete or not auto-updated."""
    if ((stored.get("metadata") or {}).get("annotations") or {}).get(AUTOUPDATE) != "true":
        return None
    if "aggregationRule" in wanted:
        return None
    field = "rules" if wanted["kind"] == "ClusterRole" else "subjects"
    held = stored.get(field) or []
    lacking = [each for each in wanted.get(field) or [] if each not in held]
    return {**stored, field: [*held, *lacking]} if lacking else None
