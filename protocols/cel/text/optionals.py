"""Reject expressions that could hand an optional to Python within a list, a map, or as dyn.

The engine converts results, and lists for our functions, to Python values, and a process that converts an optional
within one ends with SIGSEGV. An optional may stand in a list or map as long as the types show it and no function on
lists is used; what hides it is rejected: `dyn`, conditions and lists of two types, optionals of optionals.
"""

from collections.abc import Iterator, Mapping

from protocols.cel.text.nodes import CALL, FUNCTION, ID, LIST, OPTIONAL_ENTRY, STRUCT, VALUE, messages, number_of, parts
from protocols.cel.text.source import CompileError
from protocols.wire.protobuf import fields, message, varints

OPTIONAL, DYN = "optional_type", "dyn"
FAULT = "an optional must not be within another one, as dyn, or within a list or map given to a function on lists"
_HIDING = (b"dyn", b"_?_:_")


def check_optionals(expression: bytes, types: Mapping[int, str], on_lists: bool) -> None:
    """Raise CompileError if an optional is hidden; `on_lists`: the expression uses functions on lists."""
    if not any(OPTIONAL in kind for kind in types.values()):
        return
    nested = any(kind.count(OPTIONAL) > 1 for kind in types.values())
    if nested or any(_hides(node, types, on_lists) for node in _nodes(expression)):
        raise CompileError(f"compilation failed: {FAULT}")


def _nodes(node: bytes) -> Iterator[bytes]:
    """Yield all expressions below one."""
    yield node
    for number, body in fields(node):
        if isinstance(body, bytes):
            for part in parts(number, body):
                yield from _nodes(part)


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
