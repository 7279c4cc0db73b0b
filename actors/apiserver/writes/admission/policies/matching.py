"""Match writes against the rules and selectors of policies, bindings and webhooks. Pure."""

import functools
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from actors.apiserver.writes.change import Change
from protocols.kinds.served.row import Served
from protocols.kube.meta import Object
from protocols.kube.objects import at, items
from protocols.kube.selectors import LabelSelector, label_selector_from_object

ALL = "*"


class Rule(msgspec.Struct, frozen=True, gc=False):
    """NamedRuleWithOperations, or RuleWithOperations, which has no names.

    A policy may have thousands: they share equal sets and are not tracked by the garbage collector, whose passes hold
    the interpreter.
    """

    groups: frozenset[str]
    versions: frozenset[str]
    operations: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    """Pairs of resource and subresource; an empty subresource is the object itself."""
    scope: str
    names: frozenset[str]

    def covers(self, row: Served, subresource: str, operation: str) -> bool:
        """Return True if the rule is about writes of this kind, whatever their object."""
        return (
            _in(self.operations, operation)
            and _in(self.groups, row.group)
            and _in(self.versions, row.version)
            and any(kind in (ALL, row.plural) and part in (ALL, subresource) for kind, part in self.resources)
            and (self.scope == ALL or (self.scope == "Namespaced") == row.namespaced)
        )


def _read_rule(rule: Object) -> Rule:
    return Rule(
        groups=_texts(rule.get("apiGroups")),
        versions=_texts(rule.get("apiVersions")),
        operations=_texts(rule.get("operations")),
        resources=tuple(map(_split, rule.get("resources") or ())),
        scope=str(rule.get("scope") or ALL),
        names=_texts(rule.get("resourceNames")),
    )


def _texts(values: Any) -> frozenset[str]:
    return _set_of(tuple(map(str, values))) if isinstance(values, list) else _set_of(())


@functools.lru_cache(maxsize=256)
def _set_of(values: tuple[str, ...]) -> frozenset[str]:
    return frozenset(values)


def _split(resource: str) -> tuple[str, str]:
    kind, _, part = resource.partition("/")
    return kind, part


def _in(known: frozenset[str], value: str) -> bool:
    return ALL in known or value in known


class Match(msgspec.Struct, frozen=True):
    """MatchResources of a policy or binding, or the same fields of a webhook."""

    rules: tuple[Rule, ...]
    excluded: tuple[Rule, ...]
    exact: bool
    namespaces: LabelSelector
    objects: LabelSelector

    def find(self, rows: tuple[Served, ...], subresource: str, operation: str) -> "tuple[Served, KindMatch] | None":
        """Return the version that a rule covers, with what is left to check of writes of one kind; None if none does.

        `rows` are the version of the write and equivalent ones: an exclusion of one of them excludes the write.
        """
        where = rows[:1] if self.exact else rows, subresource, operation
        covered = _covered(self.rules, *where)
        excluded = _names(rule for _, rule in _covered(self.excluded, *where))
        if not covered or excluded is None:
            return None
        return covered[0][0], KindMatch(_names(rule for _, rule in covered), excluded, self.namespaces, self.objects)


def _covered(
    rules: Iterable[Rule], rows: tuple[Served, ...], subresource: str, operation: str
) -> list[tuple[Served, Rule]]:
    """Return versions and the rules that cover them: that of the write first, equivalent ones by the order of rules."""
    pairs = itertools.chain(itertools.product(rules, rows[:1]), itertools.product(rules, rows[1:]))
    return [(row, rule) for rule, row in pairs if rule.covers(row, subresource, operation)]


def _names(rules: Iterable[Rule]) -> frozenset[str] | None:
    """Return the names of objects that one of the rules is about; None for all objects."""
    names: set[str] = set()
    for rule in rules:
        if not rule.names:
            return None
        names |= rule.names
    return frozenset(names)


class KindMatch(msgspec.Struct, frozen=True):
    """A match for writes of one kind: their cost is that of the object, whatever the number of rules."""

    names: frozenset[str] | None
    """None: of all names."""
    excluded: frozenset[str]
    namespaces: LabelSelector
    objects: LabelSelector

    def selects(self, change: Change, new: Object | None, old: Object | None, namespace: Object) -> bool:
        """Return True if names and selectors match a write."""
        name = change.target.name or str(at(new, "metadata", "name") or "")
        if name in self.excluded or (self.names is not None and name not in self.names):
            return False
        return self._in_namespace(change, new, old, namespace) and self._selects_object(new, old)

    def _in_namespace(self, change: Change, new: Object | None, old: Object | None, namespace: Object) -> bool:
        if not self.namespaces:
            return True
        written = change.target.resource
        if written.full_name == "namespaces":
            return self.namespaces.matches(_labels_of(new if new is not None else old))
        return not written.namespaced or self.namespaces.matches(_labels_of(namespace))

    def _selects_object(self, new: Object | None, old: Object | None) -> bool:
        if not self.objects:
            return True
        return any(obj is not None and self.objects.matches(_labels_of(obj)) for obj in (new, old))


def _labels_of(obj: Object | None) -> Mapping[str, str]:
    labels = at(obj, "metadata", "labels")
    return labels if isinstance(labels, dict) else {}


EVERYTHING = Rule(*(frozenset((ALL,)),) * 3, ((ALL, ALL),), ALL, frozenset())


def read_match(match: Object, rules: str = "resourceRules", default: tuple[Rule, ...] = ()) -> Match:
    """Parse a valid match; `default`: its rules if it has none, as a binding's."""
    return Match(
        rules=tuple(map(_read_rule, items(match, rules))) or default,
        excluded=tuple(map(_read_rule, items(match, "excludeResourceRules"))),
        exact=match.get("matchPolicy") == "Exact",
        namespaces=label_selector_from_object(match.get("namespaceSelector") or {}),
        objects=label_selector_from_object(match.get("objectSelector") or {}),
    )
