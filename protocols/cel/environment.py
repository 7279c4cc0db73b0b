"""CEL environments: libraries, our own types and functions, shared by device selectors and rules of custom resources.

The native library is imported and set up with the first expression. For selectors there are two environments, one to
check and one to run. Both declare the same names; only the one to check knows quantities and versions as types of their
own, only the one to run has functions behind them.
"""

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from protocols.cel.libraries import addresses, named
from protocols.cel.libraries.functions import (
    ANY_LIST,
    CONFIG,
    DYN,
    FIND_FUNCTIONS,
    INDEX_CHECKED,
    INDEX_RUN,
    LIST_CHECKED,
    LIST_RUN,
    LISTS,
    MAPS_RUN,
    STRINGS_CHECKED,
    STRINGS_RUN,
    orders,
)
from protocols.cel.libraries.quantities import BOOL, DOUBLE, INT, QUANTITY, STRING, VERSION, declared
from protocols.cel.text.rewrite import MAPS, VARIABLES, variable

if TYPE_CHECKING:
    from cel_expr_python import cel


LIBRARIES = ("bindings", "strings", "optional", "sets", "lists", "math", "two-var-comprehensions")
_EVERYWHERE = (*addresses.FUNCTIONS, *FIND_FUNCTIONS, *named.FUNCTIONS)
OPAQUE = {
    QUANTITY: "kubernetes.Quantity",
    VERSION: "kubernetes.Semver",
    addresses.IP: "net.IP",
    addresses.CIDR: "net.CIDR",
    addresses.URL: "kubernetes.URL",
    named.FORMAT: "kubernetes.NamedFormat",
}


def config(native: Any, name: str) -> "cel.EnvConfig":
    extensions = "".join(f"- name: {library}\n" for library in LIBRARIES)
    made: cel.EnvConfig = native.NewEnvConfigFromYaml(f"name: {name}\nextensions:\n{extensions}{CONFIG}")
    return made


def types(native: Any, run: bool) -> dict[str, "cel.Type"]:
    """By our names. To check, our own are types; to run, bytes."""
    kinds = native.Type
    opaque = {name: kinds.BYTES if run else kinds.AbstractType(full) for name, full in OPAQUE.items()}
    plain = {STRING: kinds.STRING, BOOL: kinds.BOOL, INT: kinds.INT, DOUBLE: kinds.DOUBLE, DYN: kinds.DYN}
    plain |= {"uint": kinds.UINT, "bytes": kinds.BYTES, "timestamp": kinds.TIMESTAMP, "duration": kinds.DURATION}
    made = {name: kinds.List(plain[kind]) for kind, name in LISTS.items()}
    made |= {"null": kinds.NULL, "map": kinds.Map(kinds.DYN, kinds.DYN)}
    texts = kinds.List(kinds.STRING)
    made |= {named.FORMATS: kinds.List(opaque[named.FORMAT]), named.FAULTS: kinds.List(texts)}
    made |= {ANY_LIST: kinds.List(kinds.DYN), addresses.QUERY: kinds.Map(kinds.STRING, texts)}
    return plain | made | opaque


def functions(native: Any, known: dict[str, "cel.Type"], run: bool) -> list["cel.FunctionDecl"]:
    checked = (*LIST_CHECKED, *INDEX_CHECKED, *STRINGS_CHECKED)
    more = (*LIST_RUN, *INDEX_RUN, *STRINGS_RUN, *MAPS_RUN) if run else checked
    return [*declared(native, known, run, (*_EVERYWHERE, *more)), *orders(native)]


class Engine(NamedTuple):
    check: "cel.Env"
    run: "cel.Env"
    error: "cel.Type"


@functools.cache
def engine() -> Engine:
    from cel_expr_python import cel

    return Engine(_environment(cel, run=False), _environment(cel, run=True), cel.Type.ERROR)


def _environment(native: Any, run: bool) -> "cel.Env":
    kinds, known = native.Type, types(native, run)
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
        config=config(native, "selectors"),
        variables=variables,
        functions=functions(native, known, run),
    )
    return env
