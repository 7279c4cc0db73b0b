"""Validate a job's policies of failure and success, and lists of indexes. Messages equal upstream's.

Of a list that is too long, only as many elements are checked as it may have.
"""

import re
from itertools import pairwise

from protocols.kinds.check.causes import Cause, invalid, required, too_long, too_many
from protocols.kinds.check.table import Causes, Check, Ordered, causes_of, each, needed, once, one_of, together
from protocols.kinds.check.values import label_key
from protocols.kinds.workloads.rules import not_negative
from protocols.kube.meta import Object
from protocols.kube.objects import items

MOST_RULES, MOST_CODES, MOST_PATTERNS, LONGEST_INDEXES = 20, 255, 20, 64 * 1024


def omitted(path: str, text: str) -> Cause:
    """Return the cause of an invalid value that is not shown."""
    return Cause(path, "FieldValueInvalid", f"Invalid value: {text}")


def _listed(*allowed: str) -> Check:
    """Check an enumeration; one that is missing is reported with the valid values."""
    listed = " ".join(f'"{value}"' for value in allowed)
    return needed(one_of(*allowed), f"valid values: [{listed}]")


PATTERN = Ordered("type status", type=label_key, status=_listed("False", "True", "Unknown"))
_operator = _listed("In", "NotIn")
_action = _listed("Count", "FailIndex", "FailJob", "Ignore")


def failure_policy(spec: Object) -> Check:
    """Return the check of spec.podFailurePolicy of a job with this spec."""
    pod = (spec.get("template") or {}).get("spec") or {}
    names = {container.get("name") for field in ("containers", "initContainers") for container in items(pod, field)}

    def container(path: str, name: str, causes: Causes) -> None:
        if name not in names:
            text = "must be one of the container or initContainer names in the pod template"
            causes.append(invalid(path, name, text))

    def action(path: str, value: str, causes: Causes) -> None:
        _action(path, value, causes)
        if value == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            causes.append(invalid(path, value, "requires the backoffLimitPerIndex to be set"))

    codes = together(Ordered("operator", operator=_operator, containerName=container), _codes)
    patterns = each(PATTERN, limit=MOST_PATTERNS)
    rule = together(Ordered("action", action=action, onExitCodes=codes, onPodConditions=patterns), _one_kind)
    return Ordered(rules=each(rule, limit=MOST_RULES))


def _one_kind(path: str, rule: Object, causes: Causes) -> None:
    has_codes, has_patterns = rule.get("onExitCodes") is not None, bool(rule.get("onPodConditions"))
    if has_codes and has_patterns:
        causes.append(omitted(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
    elif not has_codes and not has_patterns:
        causes.append(omitted(path, "specifying one of OnExitCodes and OnPodConditions is required"))


def _codes(path: str, codes: Object, causes: Causes) -> None:
    path, values = f"{path}.values", codes.get("values") or []
    if not values:
        causes.append(invalid(path, values, "at least one value is required"))
    elif len(values) > MOST_CODES:
        causes.append(too_many(path, len(values), MOST_CODES))
    is_new, shown = once(), values[:MOST_CODES]
    for index, value in enumerate(shown):
        if codes.get("operator") == "In" and value == 0:
            causes.append(invalid(f"{path}[{index}]", value, "must not be 0 for the In operator"))
        is_new(f"{path}[{index}]", value, causes)
    if any(left > right for left, right in pairwise(shown)):
        causes.append(invalid(path, shown, "must be ordered"))


def success_causes(path: str, policy: Object, completions: int) -> Causes:
    """Validate spec.successPolicy of an indexed job."""
    rules, path = items(policy, "rules"), f"{path}.rules"
    causes: Causes = []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        causes.append(required(path, text))
    if len(rules) > MOST_RULES:
        causes.append(too_many(path, len(rules), MOST_RULES))
    for index, rule in enumerate(rules[:MOST_RULES]):
        causes += _success_rule_causes(f"{path}[{index}]", rule, completions)
    return causes


def _success_rule_causes(path: str, rule: Object, completions: int) -> Causes:
    count, indexes, total, causes = rule.get("succeededCount"), rule.get("succeededIndexes"), 0, []
    if count is None and indexes is None:
        causes.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    if indexes is not None:
        if len(indexes) > LONGEST_INDEXES:
            return [*causes, too_long(f"{path}.succeededIndexes", LONGEST_INDEXES)]
        try:
            total = sum(last - first + 1 for first, last in index_intervals(indexes, completions))
        except IndexesInvalid as error:
            text = f"error parsing succeededIndexes: {error}"
            causes.append(invalid(f"{path}.succeededIndexes", indexes, text))
    if count is not None:
        bounds = [(completions, "the number of specified completions")]
        if indexes is not None:
            bounds.append((total, "the number of indexes in the specified succeededIndexes field"))
        causes += causes_of(not_negative, f"{path}.succeededCount", count)
        over = ((bound, name) for bound, name in bounds if count > bound)
        texts = [f"must be less than or equal to {bound} ({name})" for bound, name in over]
        causes += [invalid(f"{path}.succeededCount", count, text) for text in texts]
    return causes


class IndexesInvalid(ValueError):
    """Raised for a list of indexes such as `1,3-5` that is malformed, unordered or beyond the completions."""


NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


def index_intervals(text: str, completions: int) -> list[tuple[int, int]]:
    """Return the first and last index of each interval. Raises IndexesInvalid."""
    intervals: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        limits = part.split("-")
        if len(limits) > 2:
            fault = "violates the requirement that an index interval can have at most two parts separated by '-'"
            raise IndexesInvalid(f'the fragment "{part}" {fault}')
        first, last = _index(limits[0], completions), _index(limits[-1], completions)
        if len(limits) == 2 and first >= last:
            raise IndexesInvalid(f"non-increasing order, previous: {first}, current: {last}")
        if intervals and intervals[-1][1] >= first:
            raise IndexesInvalid(f"non-increasing order, previous: {intervals[-1][1]}, current: {first}")
        intervals.append((first, last))
    return intervals


def _index(text: str, completions: int) -> int:
    if not NUMBER.fullmatch(text):
        raise IndexesInvalid(f'cannot convert string to integer for index: "{text}"')
    if (number := int(text)) >= completions:
        raise IndexesInvalid(f'too large index: "{text}"')
    return number
