"""Run rules of custom resources. Programs are kept by text: values are plain maps, so one environment serves all."""

import functools
from typing import TYPE_CHECKING, Any

from protocols.cel import environment
from protocols.cel.compiling import compile_text, prepared
from protocols.cel.evaluation.running import CostBudget, Expression
from protocols.cel.evaluation.tree import tree_of

if TYPE_CHECKING:
    from cel_expr_python import cel

THIS, OLD, HAS_OLD = VARIABLES = ("self", "oldSelf", "_np_has_old")
OPTIONAL = {OLD: (f"({HAS_OLD} ? optional.of(", ") : optional.none())")}


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
