"""The native library, imported and set up with the first expression: one environment to check, one to run.

Both declare the same names; only the check knows quantities and versions as types of their own, only the run has
functions behind them.
"""

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from protocols.cel.library import BOOL, DOUBLE, INT, QUANTITY, STRING, VERSION, declared
from protocols.cel.rewrite import MAPS, VARIABLES, variable

if TYPE_CHECKING:
    from cel_expr_python import cel

LIBRARIES = ("bindings", "strings", "optional", "sets", "lists", "math", "two-var-comprehensions")
_CONFIG = "name: selectors\nextensions:\n" + "".join(f"- name: {name}\n" for name in LIBRARIES)


class Engine(NamedTuple):
    check: "cel.Env"
    run: "cel.Env"
    error: "cel.Type"


@functools.cache
def engine() -> Engine:
    from cel_expr_python import cel

    kinds = cel.Type
    opaque = {
        QUANTITY: kinds.AbstractType("kubernetes.Quantity"),
        VERSION: kinds.AbstractType("kubernetes.Semver"),
    }
    return Engine(
        _environment(cel, opaque, run=False),
        _environment(cel, {QUANTITY: kinds.BYTES, VERSION: kinds.BYTES}, run=True),
        kinds.ERROR,
    )


def _environment(native: Any, opaque: dict[str, "cel.Type"], run: bool) -> "cel.Env":
    kinds = native.Type
    names = {STRING: kinds.STRING, BOOL: kinds.BOOL, INT: kinds.INT, DOUBLE: kinds.DOUBLE, **opaque}
    entries = dict(
        zip(MAPS, (kinds.Map(kinds.STRING, kinds.DYN), kinds.Map(kinds.STRING, opaque[QUANTITY])), strict=True)
    )
    variables = {
        "device.driver": kinds.STRING,
        "device.allowMultipleAllocations": kinds.BOOL,
        **{f"device.{name}": kinds.Map(kinds.STRING, kind) for name, kind in entries.items()},
    }
    if run:
        variables |= {variable(name, number): kind for name, kind in entries.items() for number in range(VARIABLES)}
    env: cel.Env = native.NewEnv(
        config=native.NewEnvConfigFromYaml(_CONFIG),
        variables=variables,
        functions=declared(native, names, run),
    )
    return env
