"""Defaults and checks that policies and webhooks share: resource rules, selectors, match conditions.

Paths, texts and limits are upstream's.
"""

from typing import TYPE_CHECKING

from protocols.cel.worker.messages import CheckPolicy
from protocols.kinds.check.causes import invalid, required
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import Causes, Check, Ordered, anything, each, needed, one_of, texts, together, unique
from protocols.kinds.check.values import path_segment
from protocols.kinds.dra.selectors import Budget, compile_expression
from protocols.kube.meta import Object
from protocols.kube.names import qualified_faults
from protocols.kube.objects import items

if TYPE_CHECKING:
    from protocols.cel.policies import PolicyScope

MUTABLE = ("*", "CONNECT", "CREATE", "UPDATE")
CONDITIONS, EXPRESSIONS = 64, 128
"""Match conditions of a policy or webhook; validations, mutations and variables of a policy."""


def default_match(match: Object) -> None:
    """Set the defaults of the match fields of a policy, a binding or a webhook."""
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for rule in (*items(match, "resourceRules"), *items(match, "excludeResourceRules"), *items(match, "rules")):
        rule.setdefault("scope", "*")


def _all_alone(what: str) -> Check:
    """Require some values, and of `*` that it is the only one."""

    def check(path: str, values: list[str], causes: Causes) -> None:
        if len(values) > 1 and "*" in values:
            causes.append(invalid(path, values, f"if '*' is present, must not specify other {what}"))

    return needed(check)


def _resources(path: str, values: list[str], causes: Causes) -> None:
    whole, anywhere = set(), set()
    for index, value in enumerate(values):
        resource, slash, part = value.partition("/")
        if not value:
            causes.append(required(f"{path}[{index}]"))
        if not slash:
            continue
        if resource in whole:
            text = f"if '{resource}/*' is present, must not specify {value}"
            causes.append(invalid(f"{path}[{index}]", value, text))
        if part in anywhere:
            text = f"if '*/{part}' is present, must not specify {value}"
            causes.append(invalid(f"{path}[{index}]", value, text))
        if part == "*":
            whole.add(resource)
        if resource == "*":
            anywhere.add(part)
    if len(values) > 1 and "*/*" in values:
        causes.append(invalid(path, values, "if '*/*' is present, must not specify other resources"))
    if "*" in values and any("/" not in value and value != "*" for value in values):
        text = "if '*' is present, must not specify other resources without subresources"
        causes.append(invalid(path, values, text))


RULE = Ordered(
    "operations apiGroups apiVersions resources",
    resourceNames=together(each(path_segment), unique),
    operations=together(
        _all_alone("operations"), each(one_of("*", "CONNECT", "CREATE", "DELETE", "UPDATE", empty=True))
    ),
    apiGroups=_all_alone("API groups"),
    apiVersions=together(_all_alone("API versions"), each(needed(anything))),
    resources=needed(_resources),
    scope=one_of("*", "Cluster", "Namespaced", empty=True),
)
failure_policy = one_of("Fail", "Ignore", empty=True)
reinvocation_policy = one_of("IfNeeded", "Never", empty=True)
MATCH = Ordered(
    matchPolicy=one_of("Equivalent", "Exact", empty=True),
    namespaceSelector=label_selector,
    objectSelector=label_selector,
    resourceRules=each(RULE),
    excludeResourceRules=each(RULE),
    rules=each(RULE),
)
"""Which requests concern a policy, a binding or a webhook."""
_operations = each(one_of(*MUTABLE, empty=True), unindexed=True)
MUTATING_MATCH = together(MATCH, Ordered(resourceRules=each(Ordered(operations=_operations), unindexed=True)))
"""The operations of a mutating policy must have an object to change."""


def expression(scope: "PolicyScope", budget: Budget, *results: str, missing: str = "") -> Check:
    """Have an expression compiled; it has one of the `results`, or any."""

    def check(path: str, text: str, causes: Causes) -> None:
        if text := text.strip():
            compile_expression(path, CheckPolicy(text, scope, results), budget, causes)
        else:
            causes.append(required(path, missing))

    return check


def conditions(scope: "PolicyScope", budget: Budget) -> Check:
    """Return the check of match conditions."""
    condition = Ordered(
        "expression name", expression=expression(scope, budget, "BOOL"), name=needed(texts(qualified_faults))
    )
    return each(condition, limit=CONDITIONS, key=lambda value: value.get("name"), at=".name")
