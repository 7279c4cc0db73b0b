"""Check the rules at one path of a schema: they compile, and their worst case is known; and run them.

To check, what a rule speaks of has the types of its schema; to run, it comes as plain maps. Programs are kept by text,
since values are plain maps: one environment serves all.
"""

import functools
from typing import TYPE_CHECKING, Any

from protocols.cel import environment
from protocols.cel.compiling import check_literals, compile_text, prepared, result_type
from protocols.cel.costs.estimate import cost_of
from protocols.cel.costs.sizes import product
from protocols.cel.evaluation.running import CostBudget, Expression
from protocols.cel.evaluation.tree import tree_of
from protocols.cel.rules.messages import Messages
from protocols.cel.rules.values import LIMIT, CelType, size_of
from protocols.cel.text.source import check_no_bindings

if TYPE_CHECKING:
    from cel_expr_python import cel

THIS, OLD, HAS_OLD = VARIABLES = ("self", "oldSelf", "_np_has_old")
OPTIONAL = {OLD: (f"({HAS_OLD} ? optional.of(", ") : optional.none())")}


OPTIONAL_OLD = {OLD: ("optional.of(", ")")}


@functools.cache
def _environment() -> "cel.Env":
    """The last one of the variables alone has a type."""
    from cel_expr_python import cel

    kinds = cel.Type
    return environment.environment("rules", {THIS: kinds.DYN, OLD: kinds.DYN, HAS_OLD: kinds.BOOL})


class RuleProgram:
    """A compiled rule: immutable and safe to share; it retains nothing of objects."""

    __slots__ = ("_expression", "serialized")

    def __init__(self, serialized: bytes) -> None:
        """Raises CompileError. `serialized`: the checked tree."""
        self.serialized = serialized
        self._expression = Expression(tree_of(serialized), VARIABLES)

    def value(self, this: Any, old: Any, has_old: bool, budget: CostBudget | None = None) -> Any:
        """Raises EvaluationError."""
        return self._expression.evaluate((this, old, has_old), budget)


@functools.lru_cache(maxsize=4096)
def program(text: str, optional_old: bool) -> RuleProgram:
    """Raises CompileError."""
    return RuleProgram(compile_text(_environment(), prepared(text, OPTIONAL if optional_old else None)).serialize())


class Checker:
    """Compiles expressions about one type; `count` values of it may come in one request."""

    def __init__(self, cel_type: CelType, count: int) -> None:
        messages = Messages()
        this = messages.type_of(cel_type)
        self._env = environment.environment("rules", {THIS: this, OLD: this}, pool=messages.pool())
        self._cel_type, self._count = cel_type, count

    def check(self, text: str, optional_old: bool) -> tuple[str, int]:
        """Return the name of the result's type and the worst-case cost. Raises CompileError."""
        written = prepared(text, OPTIONAL_OLD if optional_old else None)
        check_no_bindings(text)
        expression = compile_text(self._env, written)
        serialized = expression.serialize()
        check_literals(serialized, written)
        return result_type(expression), self._worst(serialized)

    def _worst(self, serialized: bytes) -> int:
        """Return the worst-case cost.

        All values at this path come in one request: one may be as large as the request, or all may be equally small.
        """
        costs = []
        for number, cap in ((1, LIMIT), (self._count, max(1, LIMIT // self._count))):
            size = size_of(self._cel_type, cap)
            costs.append(product(number, cost_of(serialized, {THIS: size, OLD: size})))
        return max(costs)
