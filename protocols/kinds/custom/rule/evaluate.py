"""Evaluate the rules of a schema against an object. Messages equal upstream's.

A rule without oldSelf is skipped while its value is unchanged. A transition rule (with oldSelf) runs whenever there is
an old value to compare with: fields correlate by name, map entries by key, list items by their list-map keys.

The worker is asked for all rules of an object at once.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from protocols.cel.text.source import SPENT, CelError
from protocols.cel.worker.asking import answer
from protocols.cel.worker.messages import Evaluated, EvaluateRules, Outcome, RuleGroup, RuleText, Value, WorkerFault
from protocols.kinds.check.causes import OMITTED, Cause, duplicate, forbidden, invalid, required
from protocols.kinds.custom.rule.cel_type import cel_type_of
from protocols.kinds.custom.rule.path import error_path
from protocols.kinds.custom.schema.node import MISSING, Node, Rule
from protocols.kube.jsons import same_json

SECONDS = 1.0
"""Time limit for all rules of one object, about as long as upstream's cost budget."""
MESSAGE_BYTES = 5 * 1024
OVERLOAD = "call arguments did not match a supported operator, function or macro signature for rule"
OVER = "no further validation rules will be run due to call cost exceeds limit for rule"
NOWHERE = "<nil>"
Same = Callable[[], bool]


def rule_causes(value: Any, node: Node, old: Any = MISSING, path: str = "", root: bool = True) -> list[Cause]:
    """Return a cause for each failed rule; none while the worker was not asked. `root`: the value is a whole object."""
    walk = _Walk()
    walk.visit(value, node, path, old, _equals(value, old), root)
    if not walk.groups:
        return []
    try:
        result = answer(EvaluateRules(tuple(walk.groups), SECONDS))
    except CelError as error:
        return [invalid(path or NOWHERE, "<value omitted>", str(error))]
    return list(_causes(walk.asked, result.outcomes)) if isinstance(result, Evaluated) else []


class _Walk:
    """Collects the rules that apply, with their values, in the order of their evaluation."""

    def __init__(self) -> None:
        self.groups: list[RuleGroup] = []
        self.asked: list[tuple[Rule, _Place]] = []

    def visit(self, value: Any, node: Node, path: str, old: Any, same: Same, root: bool) -> None:
        """Visit a value and its parts. `same` returns True if the value, or what it is part of, is unchanged."""
        if not node.ruled or value is None:
            return
        if node.rules:
            self._add(value, node, path, old, same, root)
        parts = _entries(value, node, path, old) if isinstance(value, dict) else _items(value, node, path, old)
        for part, child, where, was in parts:
            kept = same if was is MISSING else _equals(part, was)
            self.visit(part, child, where, was, kept, child.embedded)

    def _add(self, value: Any, node: Node, path: str, old: Any, same: Same, root: bool) -> None:
        has_old = old is not MISSING and old is not None
        wanted = [rule for rule in node.rules if _applies(rule, has_old, same)]
        cel_type = cel_type_of(node, root) if wanted else None
        if cel_type is None:
            return
        was = old if has_old and any(rule.uses_old for rule in wanted) else None
        rules = tuple((RuleText(rule.text, rule.optional_old), rule.message_expression) for rule in wanted)
        self.groups.append(RuleGroup(cel_type, value, was, has_old, rules))
        place = _Place(path, node, value)
        self.asked += [(rule, place) for rule in wanted]


def _causes(asked: list[tuple[Rule, "_Place"]], outcomes: Sequence[Outcome]) -> Iterator[Cause]:
    for (rule, place), held, message in zip(asked, outcomes[::2], outcomes[1::2], strict=False):
        if isinstance(held, WorkerFault):
            spent = held.text == SPENT
            yield invalid(place.path or NOWHERE, place.type, SPENT if spent else _error_text(held.text, rule))
        elif isinstance(held, Value) and held.value is not True:
            yield _cause(rule, place, _message(rule, message))


class _Place:
    def __init__(self, path: str, node: Node, value: Any) -> None:
        self.path = path
        self.type = node.type
        self.raw = node.raw
        self.value = OMITTED if node.type in ("object", "array") else value
        """As shown in errors of rules that do not hold."""


def _applies(rule: Rule, has_old: bool, same: Same) -> bool:
    if rule.uses_old:
        return has_old or rule.optional_old
    return not same()


def _equals(part: Any, was: Any) -> Same:
    """Return the comparison of a value with the old one, done once: each item of a list without keys asks for it."""
    return functools.cache(lambda: same_json(part, was))


def _entries(value: dict[str, Any], node: Node, path: str, old: Any) -> Iterator[tuple[Any, Node, str, Any]]:
    before = old if isinstance(old, dict) else {}
    for name, part in value.items():
        child = node.properties.get(name)
        if child is not None:
            yield part, child, f"{path}.{name}" if path else name, before.get(name, MISSING)
        elif isinstance(node.additional, Node):
            yield part, node.additional, f"{path}[{name}]", before.get(name, MISSING)


def _items(value: Any, node: Node, path: str, old: Any) -> Iterator[tuple[Any, Node, str, Any]]:
    if not isinstance(value, list) or node.items is None:
        return
    before = {}
    if node.list_type == "map" and isinstance(old, list):
        before = {_key(part, node): part for part in old}
    for index, part in enumerate(value):
        yield part, node.items, f"{path}[{index}]", before.get(_key(part, node), MISSING) if before else MISSING


def _key(part: Any, node: Node) -> str:
    return repr([part.get(name) for name in node.keys]) if isinstance(part, dict) else ""


def _error_text(error: str, rule: Rule) -> str:
    if error.startswith("no such overload"):
        return f"'{error}': {OVERLOAD}: {rule.named}"
    if error.startswith("operation cancelled"):
        return f"'{error}': {OVER}: {rule.named}"
    return f"{error} evaluating rule: {rule.named}"


def _cause(rule: Rule, place: _Place, message: str) -> Cause:
    path = f"{place.path}{error_path(rule.field_path, place.raw)}".removeprefix(".") or NOWHERE
    if rule.reason == "FieldValueForbidden":
        return forbidden(path, message)
    if rule.reason == "FieldValueRequired":
        return required(path, message)
    if rule.reason == "FieldValueDuplicate":
        return duplicate(path, place.value)
    return invalid(path, place.value, message)


def _message(rule: Rule, outcome: Outcome) -> str:
    """Return the result of messageExpression if it is a single line of text, else the static message."""
    value = outcome.value if isinstance(outcome, Value) else None
    text = value.strip() if isinstance(value, str) else ""
    fits = text and "\n" not in text and len(text.encode()) <= MESSAGE_BYTES
    return text if fits else rule.failed
