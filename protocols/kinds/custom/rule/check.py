"""Check the rules of a definition before it is stored: each must compile within its cost limit.

Messages equal upstream's.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from protocols.cel.costs.sizes import product, total
from protocols.cel.rules.values import CelType, max_count
from protocols.cel.text.source import CelError
from protocols.cel.worker.asking import answer
from protocols.cel.worker.messages import CheckedRules, CheckRules, RuleText, WorkerFault
from protocols.kinds.check.causes import Cause, forbidden, invalid, required, unsupported
from protocols.kinds.custom.rule.cel_type import cel_type_of
from protocols.kinds.custom.rule.path import path_fault
from protocols.kinds.custom.schema.node import LIST_TYPE, VALIDATIONS, Node, Rule, read_rule

Raw = dict[str, Any]
RULE_COST, SCHEMA_COST = 10_000_000, 100_000_000
REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
CURE = (
    "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared"
)
CONTRIBUTED = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
NAMED = 4
BREAK = re.compile(r"[\n\r]")
NO_TYPE = "Internal error: internal error: failed to retrieve type information for x-kubernetes-validations"


class _Cost(NamedTuple):
    """Worst-case cost of one expression over all values at its path."""

    path: str
    cost: int


class _Place:
    """A schema with rules.

    `count` is the maximum number of values at this path in one object; `apart` is the path of an enclosing list whose
    items have no keys, or empty.
    """

    def __init__(self, raw: Raw, node: Node, path: str, count: int, apart: str, root: bool) -> None:
        self.raw = raw
        self.node = node
        self.path = path
        self.count = count
        self.apart = apart
        self.root = root


def rule_faults(raw: Raw, path: str) -> list[Cause]:
    """Return the faults of all rules. The schema must be structurally valid."""
    places = [place for place in _places(_Place(raw, Node(raw), path, 1, "", True)) if place.raw.get(VALIDATIONS)]
    causes = [cause for place in places for cause in _text_faults(place)]
    if causes:
        return causes
    costs: list[_Cost] = []
    for place in places:
        faults, more = _check(place)
        causes += faults
        costs += more
    return causes + _total_faults(costs, path)


def _total_faults(costs: list["_Cost"], path: str) -> list[Cause]:
    """Check the total cost of the schema; the most expensive rules are named."""
    cost = total(*(estimate.cost for estimate in costs))
    if cost <= SCHEMA_COST:
        return []
    dearest = sorted((each for each in costs if each.cost >= SCHEMA_COST // 100), key=lambda each: -each.cost)
    causes = [forbidden(estimate.path, CONTRIBUTED) for estimate in dearest[:NAMED]]
    what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    return [*causes, forbidden(path, _exceeded(what, cost, SCHEMA_COST))]


def _places(place: _Place) -> Iterator[_Place]:
    yield place
    raw, node = place.raw, place.node
    for name, part in (raw.get("properties") or {}).items():
        child = node.properties[name]
        yield from _places(
            _Place(part, child, f"{place.path}.properties[{name}]", place.count, place.apart, child.embedded)
        )
    if isinstance(raw.get("items"), dict) and node.items is not None:
        apart = place.apart or ("" if raw.get(LIST_TYPE) == "map" else place.path)
        count = product(place.count, _max_count(node))
        yield from _places(_Place(raw["items"], node.items, f"{place.path}.items", count, apart, node.items.embedded))
    if isinstance(node.additional, Node):
        count = product(place.count, _max_count(node))
        where = f"{place.path}.additionalProperties"
        yield from _places(
            _Place(raw["additionalProperties"], node.additional, where, count, place.apart, node.additional.embedded)
        )


def _max_count(node: Node) -> int:
    cel_type = cel_type_of(node, False)
    return max_count(cel_type) if cel_type is not None else 1


def _text_faults(place: _Place) -> list[Cause]:
    causes: list[Cause] = []
    for index, raw in enumerate(place.raw[VALIDATIONS]):
        causes += _rule_text(read_rule(raw), place.raw, f"{place.path}.{VALIDATIONS}[{index}]")
    return causes


def _rule_text(rule: Rule, raw: Raw, path: str) -> list[Cause]:
    text, message = rule.text.strip(), rule.message.strip()
    causes = []
    if not text:
        causes.append(required(f"{path}.rule", "rule is not specified"))
    elif rule.message and not message:
        causes.append(invalid(f"{path}.message", rule.message, "must be non-empty if specified"))
    elif BREAK.search(message):
        causes.append(invalid(f"{path}.message", rule.message, "must not contain line breaks"))
    elif BREAK.search(text) and not message:
        causes.append(required(f"{path}.message", "message must be specified if rule contains line breaks"))
    if rule.message_expression and not rule.message_expression.strip():
        causes.append(required(f"{path}.messageExpression", "messageExpression must be non-empty if specified"))
    if rule.reason and rule.reason not in REASONS:
        causes.append(unsupported(f"{path}.reason", rule.reason, REASONS))
    return causes + _field_path(rule, raw, f"{path}.fieldPath")


def _field_path(rule: Rule, raw: Raw, path: str) -> list[Cause]:
    value = rule.field_path
    if value and not value.strip():
        return [invalid(path, value, "must be non-empty if specified")]
    if BREAK.search(value):
        return [invalid(path, value, "must not contain line breaks")]
    return [invalid(path, value, "must be a valid path")] if path_fault(value, raw) else []


def _check(place: _Place) -> tuple[list[Cause], list[_Cost]]:
    """Return the faults and the costs of the rules at one path."""
    where = f"{place.path}.{VALIDATIONS}"
    cel_type = cel_type_of(place.node, place.root)
    if cel_type is None:
        return [Cause(where, "InternalError", NO_TYPE)], []
    causes: list[Cause] = []
    try:
        check = _Check(cel_type, place)
    except CelError as error:
        return [invalid(where, "<value omitted>", str(error))], []
    for index, raw in enumerate(place.raw[VALIDATIONS]):
        causes += check.rule(read_rule(raw), f"{where}[{index}]")
    return causes, check.costs


class _Check:
    """Compiled rules at one path; rules that could not be compiled for lack of an answer count as valid."""

    def __init__(self, cel_type: CelType, place: _Place) -> None:
        self._place = place
        self.costs: list[_Cost] = []
        texts = []
        for raw in place.raw[VALIDATIONS]:
            rule = read_rule(raw)
            texts.append(RuleText(rule.text, rule.optional_old))
            texts += [RuleText(rule.message_expression)] if rule.message_expression else []
        result = answer(CheckRules(cel_type, place.count, tuple(texts)))
        checked = result.rules if isinstance(result, CheckedRules) else ()
        self._checked = dict(zip(texts, checked, strict=False))

    def rule(self, rule: Rule, path: str) -> list[Cause]:
        causes = self._expression(RuleText(rule.text, rule.optional_old), f"{path}.rule", rule, "BOOL")
        compiles = all(cause.reason == "FieldValueForbidden" for cause in causes)
        if rule.message_expression and compiles:
            message = RuleText(rule.message_expression)
            causes += self._expression(message, f"{path}.messageExpression", rule, "STRING")
        if rule.uses_old and self._place.apart:
            text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {self._place.apart}"
            causes.append(invalid(f"{path}.rule", rule.text, text))
        if rule.optional_old and not rule.uses_old:
            causes.append(invalid(f"{path}.optionalOldSelf", True, "may not be set if oldSelf is not used in rule"))
        return causes

    def _expression(self, text: RuleText, path: str, rule: Rule, result: str) -> list[Cause]:
        prefix = "" if result == "BOOL" else "messageExpression "
        what = f"estimated {prefix or 'rule '}cost"
        checked = self._checked.get(text)
        if checked is None:
            return []
        if isinstance(checked, WorkerFault):
            if checked.kind == "too complex":
                return [forbidden(path, f"{what} exceeds budget by factor of more than 100x ({CURE})")]
            return [invalid(path, _go_form(rule), f"{prefix}{checked.text}")]
        if checked.result not in (result, "DYN"):
            needs = (
                "messageExpression must evaluate to a string" if prefix else "cel expression must evaluate to a bool"
            )
            return [invalid(path, _go_form(rule), needs)]
        self.costs.append(_Cost(path, checked.cost))
        return [forbidden(path, _exceeded(what, checked.cost, RULE_COST))] if checked.cost > RULE_COST else []


def _go_form(rule: Rule) -> Raw:
    """Return the rule as upstream prints it in errors."""
    return {
        "Rule": rule.text,
        "Message": rule.message,
        "MessageExpression": rule.message_expression,
        "Reason": rule.reason or None,
        "FieldPath": rule.field_path,
        "OptionalOldSelf": rule.optional_old or None,
    }


def _exceeded(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    ratio = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {ratio} ({CURE})"
