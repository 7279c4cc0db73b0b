"""Stored objects -> the words of RBAC. Never raises: what is malformed grants nothing."""

from typing import Any

import msgspec

from actors.apiserver.api.objects.paths import Obj, at, items, text
from actors.apiserver.authorization.rbac.types import Binding, PolicyRule, Role, Selector, Subject
from protocols.kube.errors import SelectorInvalid
from protocols.kube.selectors import label_selector_from_object

ACCOUNT = "system:serviceaccount"


def account_name(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"{ACCOUNT}:{namespace}:{name}"


def read_rules(obj: Obj) -> tuple[PolicyRule, ...]:
    """Return the rules of a role, which may have tens of thousands; one by one where some are malformed."""
    try:
        return msgspec.convert(obj.get("rules"), tuple[PolicyRule, ...])
    except msgspec.ValidationError:
        return tuple(read_rule(rule) for rule in items(obj, "rules"))


def read_rule(rule: Obj) -> PolicyRule:
    fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    return PolicyRule(*(_strings(rule.get(field)) for field in fields))


def read_role(obj: Obj) -> Role:
    labels = at(obj, "metadata", "labels")
    pairs = tuple(sorted((str(k), str(v)) for k, v in labels.items())) if isinstance(labels, dict) else ()
    selectors = None
    if isinstance(obj.get("aggregationRule"), dict):
        selectors = tuple(_selector(each) for each in items(obj, "aggregationRule", "clusterRoleSelectors"))
    return Role(read_rules(obj), pairs, selectors)


def read_binding(obj: Obj) -> Binding:
    namespace = text(obj, "metadata", "namespace")
    return Binding(
        name=text(obj, "metadata", "name"),
        namespace=namespace,
        role_kind=text(obj, "roleRef", "kind"),
        role_name=text(obj, "roleRef", "name"),
        subjects=tuple(_subject(each, namespace) for each in items(obj, "subjects")),
    )


def _subject(obj: Obj, namespace: str) -> Subject:
    kind, name = text(obj, "kind"), text(obj, "name")
    if kind != "ServiceAccount":
        return Subject(kind, name)
    where = text(obj, "namespace") or namespace
    return Subject("User", account_name(where, name) if where and name else "")


def _selector(obj: Obj) -> Selector:
    try:
        return label_selector_from_object(obj).matches
    except (SelectorInvalid, TypeError, ValueError, AttributeError):  # a client may have stored anything
        return lambda _labels: False


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
