"""Validate a job's policies of failure and success, and lists of indexes. Messages equal upstream's.

Of a list that is too long, only as many elements are checked as it may have.
"""

import re
from itertools import pairwise

from protocols.kinds.check.causes import Cause, invalid, required, too_long, too_many, unsupported
from protocols.kinds.check.table import Causes, causes_of, once
from protocols.kinds.check.values import label_key
from protocols.kinds.workloads.rules import not_negative
from protocols.kube.meta import Object
from protocols.kube.objects import items

MOST_RULES, MOST_CODES, MOST_PATTERNS, LONGEST_INDEXES = 20, 255, 20, 64 * 1024
ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
OPERATORS = ("In", "NotIn")
STATUSES = ("False", "True", "Unknown")


def omitted(path: str, text: str) -> Cause:
    """Return the cause of an invalid value that is not shown."""
    return Cause(path, "FieldValueInvalid", f"Invalid value: {text}")


def _one_of(path: str, value: str, allowed: tuple[str, ...]) -> Causes:
    if not value:
        listed = " ".join(f'"{each}"' for each in allowed)
        return [required(path, f"valid values: [{listed}]")]
    return [] if value in allowed else [unsupported(path, value, allowed)]


def failure_causes(path: str, policy: Object, spec: Object) -> Causes:
    """Validate spec.podFailurePolicy of a job's spec."""
    rules, path = items(policy, "rules"), f"{path}.rules"
    causes = [too_many(path, len(rules), MOST_RULES)] if len(rules) > MOST_RULES else []
    for index, rule in enumerate(rules[:MOST_RULES]):
        causes += _failure_rule_causes(f"{path}[{index}]", rule, spec)
    return causes


def _failure_rule_causes(path: str, rule: Object, spec: Object) -> Causes:
    codes, patterns, action = rule.get("onExitCodes"), items(rule, "onPodConditions"), rule.get("action") or ""
    causes = _one_of(f"{path}.action", action, ACTIONS)
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        causes.append(invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
    if codes is not None:
        causes += _code_causes(f"{path}.onExitCodes", codes, spec)
    causes += _pattern_causes(f"{path}.onPodConditions", patterns)
    if codes is not None and patterns:
        causes.append(omitted(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not patterns:
        causes.append(omitted(path, "specifying one of OnExitCodes and OnPodConditions is required"))
    return causes


def _pattern_causes(path: str, patterns: list[Object]) -> Causes:
    causes = [too_many(path, len(patterns), MOST_PATTERNS)] if len(patterns) > MOST_PATTERNS else []
    for index, pattern in enumerate(patterns[:MOST_PATTERNS]):
        causes += causes_of(label_key, f"{path}[{index}].type", pattern.get("type") or "")
        causes += _one_of(f"{path}[{index}].status", pattern.get("status") or "", STATUSES)
    return causes


def _code_causes(path: str, codes: Object, spec: Object) -> Causes:
    operator, values, container = codes.get("operator") or "", codes.get("values") or [], codes.get("containerName")
    causes = _one_of(f"{path}.operator", operator, OPERATORS)
    pod = (spec.get("template") or {}).get("spec") or {}
    names = {each.get("name") for field in ("containers", "initContainers") for each in items(pod, field)}
    if container is not None and container not in names:
        text = "must be one of the container or initContainer names in the pod template"
        causes.append(invalid(f"{path}.containerName", container, text))
    return causes + _value_causes(f"{path}.values", values, operator)


def _value_causes(path: str, values: list[int], operator: str) -> Causes:
    causes: Causes = []
    if not values:
        causes.append(invalid(path, values, "at least one value is required"))
    elif len(values) > MOST_CODES:
        causes.append(too_many(path, len(values), MOST_CODES))
    is_new, shown = once(), values[:MOST_CODES]
    for index, value in enumerate(shown):
        if operator == "In" and value == 0:
            causes.append(invalid(f"{path}[{index}]", value, "must not be 0 for the In operator"))
        is_new(f"{path}[{index}]", value, causes)
    if any(left > right for left, right in pairwise(shown)):
        causes.append(invalid(path, shown, "must be ordered"))
    return causes


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
    made: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        limits = part.split("-")
        if len(limits) > 2:
            fault = "violates the requirement that an index interval can have at most two parts separated by '-'"
            raise IndexesInvalid(f'the fragment "{part}" {fault}')
        first, last = _index(limits[0], completions), _index(limits[-1], completions)
        if len(limits) == 2 and first >= last:
            raise IndexesInvalid(f"non-increasing order, previous: {first}, current: {last}")
        if made and made[-1][1] >= first:
            raise IndexesInvalid(f"non-increasing order, previous: {made[-1][1]}, current: {first}")
        made.append((first, last))
    return made


def _index(text: str, completions: int) -> int:
    if not NUMBER.fullmatch(text):
        raise IndexesInvalid(f'cannot convert string to integer for index: "{text}"')
    if (number := int(text)) >= completions:
        raise IndexesInvalid(f'too large index: "{text}"')
    return number
