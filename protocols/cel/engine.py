"""The native library, imported and set up with the first expression: one environment to check, one to run.

Both declare the same names; only the check knows quantities and versions as types of their own, only the run has
functions behind them.
"""

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from protocols.cel import environment
from protocols.cel.library import QUANTITY
from protocols.cel.rewrite import MAPS, VARIABLES, variable

if TYPE_CHECKING:
    from cel_expr_python import cel


class Engine(NamedTuple):
    check: "cel.Env"
    run: "cel.Env"
    error: "cel.Type"


@functools.cache
def engine() -> Engine:
    from cel_expr_python import cel

    return Engine(_environment(cel, run=False), _environment(cel, run=True), cel.Type.ERROR)


def _environment(native: Any, run: bool) -> "cel.Env":
    kinds, known = native.Type, environment.types(native, run)
    entries = dict(
        zip(MAPS, (kinds.Map(kinds.STRING, kinds.DYN), kinds.Map(kinds.STRING, known[QUANTITY])), strict=True)
    )
    variables = {
        "device.driver": kinds.STRING,
        "device.allowMultipleAllocations": kinds.BOOL,
        **{f"device.{name}": kinds.Map(kinds.STRING, kind) for name, kind in entries.items()},
    }
    if run:
        variables |= {variable(name, number): kind for name, kind in entries.items() for number in range(VARIABLES)}
    env: cel.Env = native.NewEnv(
        config=environment.config(native, "selectors"),
        variables=variables,
        functions=environment.functions(native, known, run),
    )
    return env
