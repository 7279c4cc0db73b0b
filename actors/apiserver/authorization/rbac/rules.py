"""RBAC roles, bindings and rules: parsed, and matched against requests. Malformed parts grant nothing."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from actors.apiserver.api.objects import at, items, text
from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.request.user import account_name
from protocols.kube.errors import SelectorInvalid
from protocols.kube.meta import Object
from protocols.kube.selectors import label_selector_from_object

GROUP = "rbac.authorization.k8s.io"
Selector = Callable[[Mapping[str, str]], bool]


_API_NAMES = {"groups": "apiGroups", "names": "resourceNames", "urls": "nonResourceURLs"}


class PolicyRule(msgspec.Struct, frozen=True, rename=_API_NAMES):
    """Verbs on resources of API groups, or on URLs. `*` matches all; empty `names` match every name."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def compact(self) -> str:
        """Format the rule for an error about missing permissions."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{title}:{quoted(values)}" for title, values in parts if values) + "}"

    def as_object(self) -> dict[str, list[str]]:
        parts = (
            ("verbs", self.verbs),
            ("apiGroups", self.groups),
            ("resources", self.resources),
            ("resourceNames", self.names),
            ("nonResourceURLs", self.urls),
        )
        return {key: list(values) for key, values in parts if values}


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
    allowed: bool
    reason: str = ""


def quoted(values: tuple[str, ...]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


ANY = "*"


def rule_allows(rule: PolicyRule, wanted: Attributes) -> bool:
    if ANY not in rule.verbs and wanted.verb not in rule.verbs:
        return False
    if not wanted.resource:
        return any(url_matches(url, wanted.path) for url in rule.urls)
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


def url_matches(url: str, path: str) -> bool:
    return url in (ANY, path) or (url.endswith(ANY) and path.startswith(url.rstrip(ANY)))


def read_rules(obj: Object) -> tuple[PolicyRule, ...]:
    """Parse the rules of a role, of which there may be tens of thousands; one by one if some are malformed."""
    try:
        return msgspec.convert(obj.get("rules"), tuple[PolicyRule, ...])
    except msgspec.ValidationError:
        return tuple(read_rule(rule) for rule in items(obj, "rules"))


def read_rule(rule: Object) -> PolicyRule:
    fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    return PolicyRule(*(_strings(rule.get(field)) for field in fields))


def read_role(obj: Object) -> Role:
    labels = at(obj, "metadata", "labels")
    pairs = tuple(sorted((str(k), str(v)) for k, v in labels.items())) if isinstance(labels, dict) else ()
    selectors = None
    if isinstance(obj.get("aggregationRule"), dict):
        selectors = tuple(_selector(each) for each in items(obj, "aggregationRule", "clusterRoleSelectors"))
    return Role(read_rules(obj), pairs, selectors)


def read_binding(obj: Object) -> Binding:
    namespace = text(obj, "metadata", "namespace")
    return Binding(
        name=text(obj, "metadata", "name"),
        namespace=namespace,
        role_kind=text(obj, "roleRef", "kind"),
        role_name=text(obj, "roleRef", "name"),
        subjects=tuple(_subject(each, namespace) for each in items(obj, "subjects")),
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


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
