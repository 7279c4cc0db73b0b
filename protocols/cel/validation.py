"""The engine for rules of custom resources: an environment to check for each type, one to run for all.

To check, what a rule speaks of has the types of its schema; to run, it comes as plain maps. Functions are those of
selectors, and those on lists, addresses and URLs, and those that find.
"""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from protocols.cel import compiling, environment
from protocols.cel.compiling import Around, check_literals, prepared
from protocols.cel.costs.estimate import cost_of
from protocols.cel.costs.sizes import Size

if TYPE_CHECKING:
    from cel_expr_python import cel


@functools.cache
def runner(flag: str) -> tuple["cel.Env", "cel.Type"]:
    """To run, and the type of errors. Of `self`, `oldSelf` and the flag alone the last has a type."""
    from cel_expr_python import cel

    kinds = cel.Type
    env: cel.Env = cel.NewEnv(
        config=environment.config(cel, "rules"),
        variables={"self": kinds.DYN, "oldSelf": kinds.DYN, flag: kinds.BOOL},
        functions=environment.functions(cel, environment.types(cel, True), True),
    )
    return env, kinds.ERROR


def checker(pool: Any, this: "cel.Type") -> "cel.Env":
    """To check rules about one type; `pool` holds its messages."""
    from cel_expr_python import cel

    made: cel.Env = cel.NewEnv(
        descriptor_pool=pool,
        config=environment.config(cel, "rules"),
        variables={"self": this, "oldSelf": this},
        functions=environment.functions(cel, environment.types(cel, False), False),
    )
    return made


def compiled(env: "cel.Env", source: str, around: Around | None = None) -> "cel.Expression":
    """Raises CompileError. What could hurt the engine does not reach it."""
    return compiling.compile_to_run(env, prepared(source, around))


def checked(env: "cel.Env", source: str, around: Around | None = None) -> "cel.Expression":
    """Compile an expression and check its literals. Raises CompileError."""
    text = prepared(source, around)
    expression = compiling.compile_text(env, text)
    check_literals(expression.serialize(), text)
    return expression


def worst(expression: "cel.Expression", names: Mapping[str, Size]) -> int:
    """Cost, in upstream's units; `names`: how large the variables can be."""
    return cost_of(expression.serialize(), names)
