"""Run a compiled expression within its budget; every error leaves as an EvaluationError."""

from collections.abc import Sequence
from typing import Any

from protocols.cel.evaluation import forms, loops
from protocols.cel.evaluation.closures import Closure, Maker, Special
from protocols.cel.evaluation.tree import Node
from protocols.cel.functions import conversions, extensions, lists, strings
from protocols.cel.functions.values import (
    EXCEEDED,
    LISTS,
    Domains,
    Duration,
    Frame,
    Optional,
    Spent,
    Timestamp,
    Uint,
    charge,
    value_of,
)
from protocols.cel.text.source import EvaluationError

TABLES = (conversions, extensions, forms, lists, loops, strings)
"""Modules that define functions and macros when they are imported."""
CALL_LIMIT = 1_000_000
"""Upstream's limit of one expression."""


class CostBudget:
    """Cost that several expressions may have together: all rules of an object, or all expressions of a policy."""

    __slots__ = ("call", "left")

    def __init__(self, units: int, call: int = CALL_LIMIT) -> None:
        self.left = units
        """Below 0 once it is exceeded; the expression that did so has ended with its own result."""
        self.call = call
        """Limit of each expression."""


class Expression:
    """A compiled expression: immutable and safe to share; it retains nothing of what it was given."""

    __slots__ = ("_cost", "_pad", "_run")

    def __init__(self, tree: Node, variables: tuple[str, ...], special: Special | None = None) -> None:
        """`variables`: names of the values that `evaluate` is given, in their order."""
        maker = Maker(variables, special)
        code = maker.code(tree, maker.scope)
        self._run = code.run
        self._cost = code.cost
        self._pad = [None] * (maker.size - 1 - len(variables))

    def evaluate(self, values: Sequence[Any], budget: CostBudget | None = None) -> Any:
        """Return the result. Raises EvaluationError."""
        if budget is None:
            return _guarded(self._run, [CALL_LIMIT - self._cost, *values, *self._pad])
        return self._charged(self._run, values, budget)

    def plain(self, values: Sequence[Any], budget: CostBudget | None = None) -> Any:
        """Evaluate to a value of JSON's types. Raises EvaluationError for a result that has none."""
        run = self._run
        return self._charged(lambda frame: plain(frame, run(frame)), values, budget or CostBudget(CALL_LIMIT))

    def _charged(self, run: Closure, values: Sequence[Any], budget: CostBudget) -> Any:
        frame: Frame = [budget.call - self._cost, *values, *self._pad]
        try:
            return _guarded(run, frame)
        finally:
            budget.left -= budget.call - max(0, frame[0])


def _guarded(run: Closure, frame: Frame) -> Any:
    """Raises EvaluationError whatever happens within."""
    try:
        value = run(frame)
        if frame[0] < 0:
            raise Spent
        return value
    except EvaluationError:
        raise
    except Spent:
        raise EvaluationError(EXCEEDED) from None
    except Exception as error:
        raise EvaluationError(f"internal error: {type(error).__name__}: {str(error)[:256]}") from None


def plain(frame: Frame, value: Any) -> Any:
    """Convert a value to JSON's types; each part is charged. Raises EvaluationError, Spent."""
    kind = type(value)
    if kind in (str, int, bool, float, type(None), bytes):
        return value
    charge(frame, 3)
    if kind in LISTS:
        return [plain(frame, item) for item in value]
    if kind is dict or kind is Domains:
        return {value_of(key): plain(frame, element) for key, element in value.items()}
    if kind is Uint:
        return int(value)
    if kind is Optional:
        return plain(frame, value.value) if value.has_value else None
    if kind is Timestamp:
        return conversions.write_timestamp(value)
    if kind is Duration:
        return conversions.write_duration(value)
    raise EvaluationError("the result cannot be converted to JSON")
