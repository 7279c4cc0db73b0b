"""The engine for rules of custom resources: an environment to check for each type, one to run for all.

To check, what a rule speaks of has the types of its schema; to run, it comes as plain maps. Functions are those of
selectors, and those on lists, addresses and URLs, and those that find.
"""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from protocols.cel import addresses, finding, limits, lists, named, orders, places
from protocols.cel.cost import cost_of
from protocols.cel.engine import LIBRARIES
from protocols.cel.errors import CompileError
from protocols.cel.library import BOOL, DOUBLE, INT, QUANTITY, STRING, VERSION, declared
from protocols.cel.literals import literal_faults
from protocols.cel.scan import tokens
from protocols.cel.sizes import Size
from protocols.cel.told import pointed, told_compile

if TYPE_CHECKING:
    from cel_expr_python import cel

_CONFIG = "name: rules\nextensions:\n" + "".join(f"- name: {name}\n" for name in LIBRARIES) + orders.CONFIG
_EVERYWHERE = (*addresses.FUNCTIONS, *finding.FUNCTIONS, *named.FUNCTIONS)
Around = Mapping[str, tuple[str, str]]
"""What is put before and behind variables."""
_NAMES = {
    QUANTITY: "kubernetes.Quantity",
    VERSION: "kubernetes.Semver",
    addresses.IP: "net.IP",
    addresses.CIDR: "net.CIDR",
    addresses.URL: "kubernetes.URL",
    named.FORMAT: "kubernetes.NamedFormat",
}


@functools.cache
def runner(flag: str) -> tuple["cel.Env", "cel.Type"]:
    """To run, and the type of errors. Of `self`, `oldSelf` and the flag alone the last has a type."""
    from cel_expr_python import cel

    kinds = cel.Type
    types = _types(cel, dict.fromkeys(_NAMES, kinds.BYTES))
    functions = declared(cel, types, True, (*_EVERYWHERE, *lists.RUN, *places.RUN))
    functions += orders.orders(cel)
    variables = {"self": kinds.DYN, "oldSelf": kinds.DYN, flag: kinds.BOOL}
    env: cel.Env = cel.NewEnv(config=cel.NewEnvConfigFromYaml(_CONFIG), variables=variables, functions=functions)
    return env, kinds.ERROR


def checker(pool: Any, this: "cel.Type") -> "cel.Env":
    """To check rules about one type; `pool` holds its messages."""
    from cel_expr_python import cel

    types = _types(cel, {name: cel.Type.AbstractType(full) for name, full in _NAMES.items()})
    functions = declared(cel, types, False, (*_EVERYWHERE, *lists.CHECKED, *places.CHECKED))
    functions += orders.orders(cel)
    made: cel.Env = cel.NewEnv(
        descriptor_pool=pool,
        config=cel.NewEnvConfigFromYaml(_CONFIG),
        variables={"self": this, "oldSelf": this},
        functions=functions,
    )
    return made


def compiled(env: "cel.Env", source: str, around: Around | None = None) -> "cel.Expression":
    """Raises CompileError. What could hurt the engine does not reach it."""
    return _compiled(env, _given(source, around))


def checked(env: "cel.Env", source: str, around: Around | None = None) -> "cel.Expression":
    """And looked through for literals that mean nothing. Raises CompileError."""
    given = _given(source, around)
    expression = _compiled(env, given)
    faults = literal_faults(expression.serialize())
    if faults:
        raise _refusal(given, "\n".join(pointed(given.text, fault.at, fault.told) for fault in faults))
    return expression


def _given(source: str, around: Around | None) -> named.Given:
    limits.check_length(source)
    limits.check_text(source)
    found = tokens(source)
    limits.check_tokens(found)
    return named.given(places.renamed(source, found), found, around)


def _compiled(env: "cel.Env", given: named.Given) -> "cel.Expression":
    try:
        return env.compile(given.text)
    except (RuntimeError, ValueError) as error:
        raise _refusal(given, told_compile(str(error))) from None


def _refusal(given: named.Given, told: str) -> CompileError:
    return CompileError(f"compilation failed: {places.as_written(given.as_written(told))}")


def worst(expression: "cel.Expression", names: Mapping[str, Size]) -> int:
    """Cost, in upstream's units; `names`: how large the variables can be."""
    return cost_of(expression.serialize(), names)


def _types(native: Any, opaque: dict[str, "cel.Type"]) -> dict[str, "cel.Type"]:
    kinds = native.Type
    plain = {STRING: kinds.STRING, BOOL: kinds.BOOL, INT: kinds.INT, DOUBLE: kinds.DOUBLE, lists.DYN: kinds.DYN}
    made = {name: kinds.List(plain[kind]) for kind, name in lists.LISTS.items()}
    made |= {"uint": kinds.UINT, "bytes": kinds.BYTES, "timestamp": kinds.TIMESTAMP, "duration": kinds.DURATION}
    made |= {"null": kinds.NULL, "map": kinds.Map(kinds.DYN, kinds.DYN)}
    texts = kinds.List(kinds.STRING)
    made |= {named.FORMATS: kinds.List(opaque[named.FORMAT]), named.FAULTS: kinds.List(texts)}
    made |= {lists.ANY_LIST: kinds.List(kinds.DYN), addresses.QUERY: kinds.Map(kinds.STRING, texts)}
    return plain | made | opaque
