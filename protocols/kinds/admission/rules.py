"""Defaults and validation of what policies and webhooks share: resource rules, selectors, match conditions.

Paths, texts and limits are upstream's.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from protocols.cel.worker.messages import CheckPolicy
from protocols.kinds.check.causes import Cause, invalid, required, too_many, unsupported
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import causes_of, once, unique
from protocols.kinds.dra.selectors import Budget, compile_expression
from protocols.kube.meta import Object
from protocols.kube.names import qualified_faults
from protocols.kube.objects import at, items

FAILURE_POLICIES, MATCH_POLICIES = ("Fail", "Ignore"), ("Equivalent", "Exact")
OPERATIONS, SCOPES = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE"), ("*", "Cluster", "Namespaced")
MUTABLE = ("*", "CONNECT", "CREATE", "UPDATE")
REINVOCATIONS = ("IfNeeded", "Never")
CONDITIONS, EXPRESSIONS = 64, 128
"""Match conditions of a policy or webhook; validations, mutations and variables of a policy."""


def default_match(match: Object) -> None:
    """Set the defaults of the match fields of a policy, a binding or a webhook."""
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for rule in (*items(match, "resourceRules"), *items(match, "excludeResourceRules"), *items(match, "rules")):
        rule.setdefault("scope", "*")


def mutable_causes(path: str, match: Object) -> list[Cause]:
    """Check that the rules of a mutating policy have only operations with an object to change."""
    return [
        unsupported(f"{path}.resourceRules.operations", operation, MUTABLE)
        for rule in _rules_of(match)
        for operation in rule.get("operations") or []
        if operation not in MUTABLE
    ]


def match_causes(path: str, match: Object) -> list[Cause]:
    """Validate MatchResources."""
    causes = [*one_of(f"{path}.matchPolicy", match.get("matchPolicy"), MATCH_POLICIES), *selectors_causes(path, match)]
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(items(match, field)):
            where = f"{path}.{field}[{index}]"
            unique(f"{where}.resourceNames", rule.get("resourceNames") or (), causes)
            causes += rule_causes(where, rule)
    return causes


def selectors_causes(path: str, match: Object) -> list[Cause]:
    """Check namespaceSelector and objectSelector of a policy's match or of a webhook."""
    causes = []
    for field in ("namespaceSelector", "objectSelector"):
        if isinstance(match.get(field), dict):
            causes += causes_of(label_selector, f"{path}.{field}", match[field])
    return causes


def rule_causes(path: str, rule: Object) -> list[Cause]:
    """Validate RuleWithOperations."""
    causes = _some(f"{path}.operations", rule.get("operations"), "operations")
    for index, operation in enumerate(rule.get("operations") or []):
        causes += one_of(f"{path}.operations[{index}]", operation, OPERATIONS)
    causes += _some(f"{path}.apiGroups", rule.get("apiGroups"), "API groups")
    causes += _some(f"{path}.apiVersions", rule.get("apiVersions"), "API versions")
    causes += [
        required(f"{path}.apiVersions[{index}]")
        for index, version in enumerate(rule.get("apiVersions") or [])
        if not version
    ]
    causes += list(_resources(f"{path}.resources", rule.get("resources") or []))
    return causes + one_of(f"{path}.scope", rule.get("scope"), SCOPES)


def _some(path: str, values: list[str] | None, what: str) -> list[Cause]:
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _resources(path: str, values: list[str]) -> Iterator[Cause]:
    if not values:
        yield required(path)
    whole, anywhere = set(), set()
    for index, value in enumerate(values):
        resource, slash, part = value.partition("/")
        if not value:
            yield required(f"{path}[{index}]")
        if not slash:
            continue
        if resource in whole:
            yield invalid(f"{path}[{index}]", value, f"if '{resource}/*' is present, must not specify {value}")
        if part in anywhere:
            yield invalid(f"{path}[{index}]", value, f"if '*/{part}' is present, must not specify {value}")
        if part == "*":
            whole.add(resource)
        if resource == "*":
            anywhere.add(part)
    if len(values) > 1 and "*/*" in values:
        yield invalid(path, values, "if '*/*' is present, must not specify other resources")
    if "*" in values and any("/" not in value and value != "*" for value in values):
        yield invalid(path, values, "if '*' is present, must not specify other resources without subresources")


def one_of(path: str, value: Any, allowed: tuple[str, ...]) -> list[Cause]:
    """Check a required field with a fixed set of values; absent ones are required, others not supported."""
    if value in allowed:
        return []
    return [required(path)] if value is None else [unsupported(path, value, allowed)]


def condition_causes(path: str, conditions: list[Object], scope: Any, budget: Budget) -> list[Cause]:
    """Validate match conditions; `scope`: a Scope of protocols.cel.policies."""
    causes = [too_many(path, len(conditions), CONDITIONS)] if len(conditions) > CONDITIONS else []
    is_new = once()
    for index, condition in enumerate(conditions[:CONDITIONS]):
        where, name = f"{path}[{index}]", condition.get("name") or ""
        text = str(condition.get("expression") or "").strip()
        if not text:
            causes.append(required(f"{where}.expression"))
        else:
            causes += expression_causes(f"{where}.expression", text, scope, ("BOOL",), budget)
        if not name:
            causes.append(required(f"{where}.name"))
            continue
        causes += [invalid(f"{where}.name", name, fault) for fault in qualified_faults(name)]
        is_new(f"{where}.name", name, causes)
    return causes


def expression_causes(path: str, text: str, scope: Any, results: tuple[str, ...], budget: Budget) -> list[Cause]:
    """Have an expression compiled."""
    causes = list[Cause]()
    compile_expression(path, CheckPolicy(text, tuple(scope), results), budget, causes)
    return causes


def limit_causes(path: str, values: Iterable[Object]) -> list[Cause]:
    """Check the number of expressions in a list; EXPRESSIONS at most."""
    count = len(list(values))
    return [too_many(path, count, EXPRESSIONS)] if count > EXPRESSIONS else []


def _rules_of(match: Object) -> list[Object]:
    return items(match, "resourceRules")


def part(obj: Object, *path: str) -> Object | None:
    """Return the object at `path`, or None if there is none."""
    value = at(obj, *path)
    return value if isinstance(value, dict) else None
