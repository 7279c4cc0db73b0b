"""Environments of the native library, which parses and checks; what it checked runs in `evaluation`.

It is imported and set up with the first expression that is compiled. All environments share libraries, types and
functions; each has its own variables.
"""

import functools
from typing import TYPE_CHECKING, Any

from protocols.cel.libraries import addresses, functions, named, quantities
from protocols.cel.libraries.quantities import BOOL, DOUBLE, INT, QUANTITY, STRING

if TYPE_CHECKING:
    from cel_expr_python import cel


LIBRARIES = ("bindings", "strings\n  version: 2", "optional", "sets", "lists", "two-var-comprehensions")
"""Upstream has no later version of the strings, and `cel.bind` for selectors alone."""
FUNCTIONS = (*quantities.FUNCTIONS, *addresses.FUNCTIONS, *named.FUNCTIONS, *functions.CHECKED)


def environment(
    name: str, variables: dict[str, "cel.Type"], more: list["cel.FunctionDecl"] | None = None, pool: Any = None
) -> "cel.Env":
    """Return an environment of the native checker; `pool` holds messages of the variables' types."""
    from cel_expr_python import cel

    known = types(cel)
    env: cel.Env = cel.NewEnv(
        descriptor_pool=pool,
        config=_config(cel, name),
        variables=variables,
        functions=[*quantities.declared(cel, known, FUNCTIONS), *functions.orders(cel), *(more or [])],
    )
    return env


def _config(native: Any, name: str) -> "cel.EnvConfig":
    extensions = "".join(f"- name: {library}\n" for library in LIBRARIES)
    config: cel.EnvConfig = native.NewEnvConfigFromYaml(f"name: {name}\nextensions:\n{extensions}{functions.CONFIG}")
    return config


def types(native: Any) -> dict[str, "cel.Type"]:
    """Return the native checker's types by the names used here."""
    kinds = native.Type
    opaque = {name: kinds.AbstractType(full) for name, full in named.OPAQUE.items()}
    plain = {STRING: kinds.STRING, BOOL: kinds.BOOL, INT: kinds.INT, DOUBLE: kinds.DOUBLE, functions.DYN: kinds.DYN}
    plain |= {"uint": kinds.UINT, "bytes": kinds.BYTES, "timestamp": kinds.TIMESTAMP, "duration": kinds.DURATION}
    aggregates = {name: kinds.List(plain[kind]) for kind, name in functions.LISTS.items()}
    texts = kinds.List(kinds.STRING)
    aggregates |= {named.FORMATS: kinds.List(opaque[named.FORMAT]), named.FAULTS: kinds.List(texts)}
    aggregates |= {functions.ANY_LIST: kinds.List(kinds.DYN), addresses.QUERY: kinds.Map(kinds.STRING, texts)}
    return plain | aggregates | opaque


@functools.cache
def selectors() -> "cel.Env":
    """Return the environment of device selectors."""
    from cel_expr_python import cel

    kinds, known = cel.Type, types(cel)
    entries = {"attributes": kinds.Map(kinds.STRING, kinds.DYN), "capacity": kinds.Map(kinds.STRING, known[QUANTITY])}
    variables = {
        "device.driver": kinds.STRING,
        "device.allowMultipleAllocations": kinds.BOOL,
        **{f"device.{name}": kinds.Map(kinds.STRING, kind) for name, kind in entries.items()},
    }
    return environment("selectors", variables)
