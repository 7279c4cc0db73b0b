"""The rules of RBAC roles: parsed. Malformed parts grant nothing."""

from typing import Any

import msgspec

from protocols.kube.meta import Object
from protocols.kube.objects import items

GROUP = "rbac.authorization.k8s.io"
ANY = "*"


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


def quoted(values: tuple[str, ...]) -> str:
    """Return values as Go prints a list of quoted strings, for error texts."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def read_rules(obj: Object) -> tuple[PolicyRule, ...]:
    """Parse the rules of a role, of which there may be tens of thousands; one by one if some are malformed."""
    try:
        return msgspec.convert(obj.get("rules"), tuple[PolicyRule, ...])
    except msgspec.ValidationError:
        return tuple(_read_rule(rule) for rule in items(obj, "rules"))


def _read_rule(rule: Object) -> PolicyRule:
    fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    return PolicyRule(*(_strings(rule.get(field)) for field in fields))


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
