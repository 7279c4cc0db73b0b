"""Reject expressions that could hand an optional to Python within a list, a map, or as dyn.

The engine converts results, and lists for our functions, to Python values, and a process that converts an optional
within one ends with SIGSEGV. An optional may stand in a list or map as long as the types show it and no function on
lists is used; what hides it is rejected: `dyn`, conditions and lists of two types, optionals of optionals. The type of
`x[?k]` is dyn where that of `x` is: such an optional must be unwrapped, compared or selected from where it stands.
"""

from collections.abc import Mapping

from protocols.cel.text.nodes import (
    CALL,
    FUNCTION,
    ID,
    LIST,
    OPTIONAL_ENTRY,
    SELECT,
    STRUCT,
    VALUE,
    messages,
    nodes_of,
    number_of,
    parts,
)
from protocols.cel.text.source import CompileError
from protocols.wire.protobuf import fields, message, varints

OPTIONAL, DYN = "optional_type", "dyn"
FAULT = "an optional must not be within another one, as dyn, or within a list or map given to a function on lists"
_HIDING = (b"dyn", b"_?_:_")
_LOOSE = ("_[?_]", "_?._", "or")
"""Functions whose result is an optional, with the type dyn if that of their operand is dyn."""
_CHAINING = ("_[_]", *_LOOSE)
"""Functions whose result is an optional if their operand is one."""
_UNWRAPPING = ("orValue", "value", "hasValue", "_[_]", "_[?_]", "_?._")
_COMPARING = ("_==_", "_!=_", "or")
LOOKUPS = (b"_[?_]", b"_?._")
"""Parts of a serialized expression without which no optional has the type dyn."""


def check_optionals(expression: bytes, types: Mapping[int, str], on_lists: bool) -> None:
    """Raise CompileError if an optional is hidden; `on_lists`: the expression uses functions on lists."""
    if _loose(expression, types):
        raise CompileError(f"compilation failed: {FAULT}")
    if not any(OPTIONAL in kind for kind in types.values()):
        return
    nested = any(kind.count(OPTIONAL) > 1 for kind in types.values())
    if nested or any(_hides(node, types, on_lists) for node in nodes_of(expression)):
        raise CompileError(f"compilation failed: {FAULT}")


def _loose(node: bytes, types: Mapping[int, str]) -> bool:
    """Return True if a value may be an optional although its type is dyn.

    Raises CompileError if a part of it is one and is not unwrapped at once.
    """
    for kind, body in fields(node):
        if not isinstance(body, bytes):
            continue
        below = list(parts(kind, body))
        found = [_loose(part, types) for part in below]
        name = message(body, FUNCTION).decode() if kind == CALL else ""
        kept = found if name not in _COMPARING else []
        if kind == SELECT or name in _UNWRAPPING:
            kept = found[1:]
        default = any(OPTIONAL in types.get(number_of(part, ID), "") for part in below[1:]) and name == "orValue"
        unknown = types.get(number_of(node, ID), "") == DYN
        if any(kept) or (default and unknown):
            raise CompileError(f"compilation failed: {FAULT}")
        chained = (kind == SELECT or name in _CHAINING) and any(found)
        return unknown and (chained or name in _LOOSE)
    return False


def _hides(node: bytes, types: Mapping[int, str], on_lists: bool) -> bool:
    own = types.get(number_of(node, ID), "")
    for number, body in fields(node):
        if not isinstance(body, bytes) or number not in (CALL, LIST, STRUCT):
            continue
        if number == CALL:
            hiding = message(body, FUNCTION) in _HIDING
            kinds = [types.get(number_of(part, ID), "") for part in parts(number, body)]
            return DYN in own and any(OPTIONAL in kind and (hiding or kind[:3] in ("lis", "map")) for kind in kinds)
        kinds = [types.get(number_of(part, ID), "") for part in _given(number, body)]
        return (on_lists or DYN in own) and any(OPTIONAL in kind for kind in kinds)
    return False


def _given(number: int, body: bytes) -> list[bytes]:
    """Return the elements or values of a literal, without those that are unwrapped (`[?x]`, `{?k: x}`)."""
    if number == STRUCT:
        return [message(each, VALUE) for each in messages(body, 2) if not number_of(each, OPTIONAL_ENTRY)]
    unwrapped = {at for kind, each in fields(body) if kind == 2 for at in varints(each)}
    return [each for at, each in enumerate(messages(body, 1)) if at not in unwrapped]
