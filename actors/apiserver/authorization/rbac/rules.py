"""RBAC roles, bindings and rules: parsed, and matched against requests. Malformed parts grant nothing."""

from collections.abc import Callable, Mapping

import msgspec

from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.request.user import account_name
from protocols.kinds.rbac.policy_rule import ANY, PolicyRule, read_rules
from protocols.kube.errors import SelectorInvalid
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text
from protocols.kube.selectors import label_selector_from_object

Selector = Callable[[Mapping[str, str]], bool]


class Role(msgspec.Struct, frozen=True):
    """A Role or ClusterRole. Unless `selectors` is None, its rules are those of the cluster roles they select."""

    rules: tuple[PolicyRule, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    selectors: tuple[Selector, ...] | None = None


class Subject(msgspec.Struct, frozen=True):
    """A subject of a binding. Service accounts are identified by their user names."""

    kind: str
    """User or Group."""
    name: str


class Binding(msgspec.Struct, frozen=True):
    """A RoleBinding, or a ClusterRoleBinding, which has an empty namespace."""

    name: str
    namespace: str
    role_kind: str
    role_name: str
    subjects: tuple[Subject, ...]


class Decision(msgspec.Struct, frozen=True):
    """An answer of the authorizer; `reason` names the rule that allowed the request, for reviews and the audit log."""

    allowed: bool
    reason: str = ""

    @property
    def annotations(self) -> dict[str, str]:
        """Its annotations in the audit log."""
        decision = "allow" if self.allowed else "forbid"
        return {"authorization.k8s.io/decision": decision, "authorization.k8s.io/reason": self.reason}


def rule_allows(rule: PolicyRule, wanted: Attributes) -> bool:
    """Return True if one rule of a role allows a request, as upstream's RuleAllows."""
    if ANY not in rule.verbs and wanted.verb not in rule.verbs:
        return False
    if not wanted.resource:
        return any(_url_matches(url, wanted.path) for url in rule.urls)
    return (
        (ANY in rule.groups or wanted.group in rule.groups)
        and resource_matches(rule.resources, wanted.resource, wanted.subresource)
        and (not rule.names or wanted.name in rule.names)
    )


def resource_matches(resources: tuple[str, ...], resource: str, subresource: str) -> bool:
    """Match a resource: `pods` does not match `pods/log`, `*/log` matches every log, `*` everything."""
    if ANY in resources:
        return True
    if not subresource:
        return resource in resources
    return f"{resource}/{subresource}" in resources or f"{ANY}/{subresource}" in resources


def _url_matches(url: str, path: str) -> bool:
    return url in (ANY, path) or (url.endswith(ANY) and path.startswith(url.rstrip(ANY)))


def read_role(obj: Object) -> Role:
    """Read a Role or ClusterRole; `selectors` is None unless it is aggregated."""
    labels = at(obj, "metadata", "labels")
    pairs = tuple(sorted((str(k), str(v)) for k, v in labels.items())) if isinstance(labels, dict) else ()
    selectors = None
    if isinstance(obj.get("aggregationRule"), dict):
        selectors = tuple(_selector(selector) for selector in items(obj, "aggregationRule", "clusterRoleSelectors"))
    return Role(read_rules(obj), pairs, selectors)


def read_binding(obj: Object) -> Binding:
    """Read a binding; one of the whole cluster has no namespace."""
    namespace = text(obj, "metadata", "namespace")
    return Binding(
        name=text(obj, "metadata", "name"),
        namespace=namespace,
        role_kind=text(obj, "roleRef", "kind"),
        role_name=text(obj, "roleRef", "name"),
        subjects=tuple(_subject(subject, namespace) for subject in items(obj, "subjects")),
    )


def _subject(obj: Object, namespace: str) -> Subject:
    kind, name = text(obj, "kind"), text(obj, "name")
    if kind != "ServiceAccount":
        return Subject(kind, name)
    where = text(obj, "namespace") or namespace
    return Subject("User", account_name(where, name) if where and name else "")


def _selector(obj: Object) -> Selector:
    try:
        return label_selector_from_object(obj).matches
    except (SelectorInvalid, TypeError, ValueError, AttributeError):  # a client may have stored anything
        return lambda _labels: False
