"""Evaluate the rules of a schema against an object. Messages equal upstream's.

A rule without oldSelf is skipped while its value is unchanged. A transition rule (with oldSelf) runs whenever there is
an old value to compare with: fields correlate by name, map entries by key, list items by their list-map keys.

Compiled rules are cached by text: objects are plain maps at evaluation, so one environment serves all schemas.
"""

import base64
import binascii
import functools
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from datetime import time as clock_time
from math import inf
from typing import TYPE_CHECKING, Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from actors.apiserver.api.budget import spend
from actors.apiserver.api.causes import Cause, duplicate, forbidden, invalid, required
from actors.apiserver.custom.rule.cel_type import CelType, cel_type_of
from actors.apiserver.custom.rule.path import error_path
from actors.apiserver.custom.schema.node import MISSING, OLD, Node, Rule
from protocols.cel.text.source import CelError, EvaluationError, evaluation_text
from protocols.cel.validation import compiled, runner
from protocols.kube.formats import duration_nanos

if TYPE_CHECKING:
    from cel_expr_python import cel

HAS_OLD = "_np_has_old"
OPTIONAL = {OLD: (f"({HAS_OLD} ? optional.of(", ") : optional.none())")}


class Program:
    def __init__(self, expression: "cel.Expression", error: "cel.Type") -> None:
        self._evaluate = expression.eval
        self._error = error

    def value(self, this: Any, old: Any, has_old: bool) -> Any:
        """Raises EvaluationError."""
        try:
            result = self._evaluate(data={"self": this, "oldSelf": old, HAS_OLD: has_old})
            value = result.value()
        except RuntimeError as error:
            raise EvaluationError(evaluation_text(str(error))) from None
        if result.type() == self._error:
            raise EvaluationError(evaluation_text(str(value)))
        return value


@functools.lru_cache(maxsize=4096)
def program(text: str, optional_old: bool) -> Program:
    """Raises CompileError."""
    native, error = runner(HAS_OLD)
    return Program(compiled(native, text, OPTIONAL if optional_old else None), error)


def converted(value: Any, cel_type: CelType) -> Any:
    """Convert one value. Text that does not match its format remains a string, so rules on its type fail."""
    if value is None or cel_type.form in ("dyn", "string", "bool"):
        return value
    if cel_type.form in _TEXTS:
        return _read(value, cel_type.form)
    if cel_type.form == "object":
        return {
            escaped_name: converted(value[name], each)
            for name, (escaped_name, each) in cel_type.fields.items()
            if name in value
        }
    if cel_type.item is not None:
        item = cel_type.item
        if cel_type.form == "list":
            return [converted(each, item) for each in value]
        return {name: converted(each, item) for name, each in value.items()}
    return _double(value) if cel_type.form == "double" else int(value)


def _double(value: int | float) -> float:
    """Convert to float; integers out of range become infinite."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _read(value: str, form: str) -> Any:
    try:
        return _TEXTS[form](value)
    except (ValueError, OverflowError, binascii.Error):
        return value


def _timestamp(value: str) -> Timestamp:
    moment = (
        datetime.fromisoformat(value) if len(value) > 10 else datetime.combine(date.fromisoformat(value), clock_time())
    )
    made = Timestamp()
    made.FromDatetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    return made


def _duration(value: str) -> Duration:
    made = Duration()
    made.FromNanoseconds(duration_nanos(value))
    return made


_TEXTS: dict[str, Callable[[str], Any]] = {"bytes": base64.b64decode, "timestamp": _timestamp, "duration": _duration}


SECONDS = 1.0
"""Time limit for all rules of one object, about as long as upstream's cost budget."""
MESSAGE_BYTES = 5 * 1024
SPENT = "validation failed due to running out of cost budget, no further validation rules will be run"
OVERLOAD = "call arguments did not match a supported operator, function or macro signature for rule"
OVER = "no further validation rules will be run due to call cost exceeds limit for rule"
NOWHERE = "<nil>"
Same = Callable[[], bool]


def rule_causes(value: Any, node: Node, old: Any = MISSING, path: str = "", root: bool = True) -> list[Cause]:
    """Return a cause for each failed rule. `root`: the value is a whole API object."""
    walk = _Walk(time.monotonic() + SECONDS)
    walk.visit(value, node, path, old, lambda: old is not MISSING and old == value, root)
    return walk.causes


class _Walk:
    def __init__(self, deadline: float) -> None:
        self.causes: list[Cause] = []
        self._deadline = deadline

    @property
    def _spent(self) -> bool:
        return time.monotonic() > self._deadline

    def visit(self, value: Any, node: Node, path: str, old: Any, same: Same, root: bool) -> bool:
        """Visit a value and its parts; return False once the budget is spent.

        `same` returns True if the value, or the value it is part of, is unchanged.
        """
        if not node.ruled or value is None:
            return True
        if node.rules and not self._evaluate_all(value, node, path, old, same, root):
            return False
        parts = _entries(value, node, path, old) if isinstance(value, dict) else _items(value, node, path, old)
        for part, child, where, was in parts:
            kept = same if was is MISSING else _equals(part, was)
            if not self.visit(part, child, where, was, kept, child.embedded):
                return False
        return True

    def _evaluate_all(self, value: Any, node: Node, path: str, old: Any, same: Same, root: bool) -> bool:
        has_old = old is not MISSING and old is not None
        wanted = [rule for rule in node.rules if _applies(rule, has_old, same)]
        cel_type = cel_type_of(node, root) if wanted else None
        if cel_type is None:
            return True
        this = converted(value, cel_type)
        was = converted(old, cel_type) if has_old and any(rule.uses_old for rule in wanted) else None
        where = path or NOWHERE
        for rule in wanted:
            if self._spent:
                self.causes.append(invalid(where, node.type, SPENT))
                return False
            if not self._evaluate(rule, this, was, has_old, _Place(path, node)):
                return False
        return True

    def _evaluate(self, rule: Rule, this: Any, old: Any, has_old: bool, place: "_Place") -> bool:
        try:
            held = _timed(rule, this, old, has_old)
        except CelError as error:
            self.causes.append(invalid(place.path or NOWHERE, place.type, _error_text(str(error), rule)))
            return not str(error).startswith("operation cancelled")
        if held is not True:
            self.causes.append(_cause(rule, place, _message(rule, this, old, has_old)))
        return True


def _timed(rule: Rule, this: Any, old: Any, has_old: bool) -> Any:
    """Evaluate a rule and charge its time to the request. Raises CelError, BudgetSpent."""
    began = time.perf_counter()
    try:
        return program(rule.text, rule.optional_old).value(this, old, has_old)
    finally:
        spend(int(1e6 * (time.perf_counter() - began)))


class _Place:
    def __init__(self, path: str, node: Node) -> None:
        self.path = path
        self.type = node.type
        self.raw = node.raw


def _applies(rule: Rule, has_old: bool, same: Same) -> bool:
    if rule.uses_old:
        return has_old or rule.optional_old
    return not same()


def _equals(part: Any, was: Any) -> Same:
    return lambda: bool(part == was)


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
        return duplicate(path, place.type)
    return invalid(path, place.type, message)


def _message(rule: Rule, this: Any, old: Any, has_old: bool) -> str:
    """Return the result of messageExpression if it is a single line of text, else the static message."""
    if not rule.message_expression:
        return rule.failed
    try:
        result = program(rule.message_expression, False).value(this, old, has_old)
    except CelError:
        return rule.failed
    text = result.strip() if isinstance(result, str) else ""
    fits = text and "\n" not in text and len(text.encode()) <= MESSAGE_BYTES
    return text if fits else rule.failed
