"""Rules of custom resources: an environment to check for each type, and programs that run on plain maps.

To check, what a rule speaks of has the types of its schema; to run, it comes as plain maps. Functions are those of
selectors.
"""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from protocols.cel import compiling, environment
from protocols.cel.compiling import Around, check_literals, prepared
from protocols.cel.costs.estimate import cost_of
from protocols.cel.costs.sizes import Size
from protocols.cel.evaluation.running import Budget, Expression
from protocols.cel.evaluation.tree import tree_of

if TYPE_CHECKING:
    from cel_expr_python import cel


THIS, OLD = "self", "oldSelf"


@functools.cache
def runner(flag: str) -> "cel.Env":
    """The environment of programs. Of `self`, `oldSelf` and the flag alone the last has a type."""
    from cel_expr_python import cel

    kinds = cel.Type
    return environment.environment("rules", {THIS: kinds.DYN, OLD: kinds.DYN, flag: kinds.BOOL})


def checker(pool: Any, this: "cel.Type") -> "cel.Env":
    """To check rules about one type; `pool` holds its messages."""
    return environment.environment("rules", {THIS: this, OLD: this}, pool=pool)


class Program:
    """A compiled rule: immutable and safe to share; it retains nothing of objects."""

    __slots__ = ("_expression", "serialized")

    def __init__(self, serialized: bytes, flag: str) -> None:
        """Raises CompileError. `serialized`: the checked tree."""
        self.serialized = serialized
        self._expression = Expression(tree_of(serialized), (THIS, OLD, flag))

    def value(self, this: Any, old: Any, has_old: bool, budget: Budget | None = None) -> Any:
        """Raises EvaluationError."""
        return self._expression.evaluate((this, old, has_old), budget)


def compiled(flag: str, source: str, around: Around | None = None) -> Program:
    """Raises CompileError. What could hurt the checker does not reach it."""
    return Program(compiling.compile_text(runner(flag), prepared(source, around)).serialize(), flag)


def checked(env: "cel.Env", source: str, around: Around | None = None) -> "cel.Expression":
    """Compile an expression and check its literals. Raises CompileError."""
    text = prepared(source, around)
    expression = compiling.compile_text(env, text)
    check_literals(expression.serialize(), text)
    return expression


def worst(expression: "cel.Expression", names: Mapping[str, Size]) -> int:
    """Cost, in upstream's units; `names`: how large the variables can be."""
    return cost_of(expression.serialize(), names)
