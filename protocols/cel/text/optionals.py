"""Reject expressions that could hand an optional to Python within a list, a map, or as dyn.

The engine converts results, and lists for our functions, to Python values, and a process that converts an optional
within one ends with SIGSEGV. An optional may stand in a list or map as long as the types show it and no function on
lists is used; what hides it is rejected: `dyn`, conditions and lists of two types, optionals of optionals.
"""

from collections.abc import Iterator, Mapping

from protocols.cel.text.source import CompileError
from protocols.wire.protobuf import Value, fields, message

OPTIONAL, DYN = "optional_type", "dyn"
FAULT = "an optional must not be within another one, as dyn, or within a list or map given to a function on lists"
_ID, _CALL, _LIST, _STRUCT = 2, 6, 7, 8
_OPTIONAL_ENTRY = 5
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
        if number > _ID and isinstance(body, bytes):
            for part in _parts(number, body):
                yield from _nodes(part)


def _parts(number: int, body: bytes) -> Iterator[bytes]:
    """Yield the direct parts of an expression; entries of a map yield keys and values."""
    below = {5: (1,), _CALL: (1, 3), _LIST: (1,), _STRUCT: (2,), 9: (2, 4, 5, 6, 7)}.get(number, ())
    for kind, each in fields(body):
        if kind in below and isinstance(each, bytes):
            if number == _STRUCT:
                yield from (part for key, part in fields(each) if key in (3, 4) and isinstance(part, bytes))
            else:
                yield each


def _hides(node: bytes, types: Mapping[int, str], on_lists: bool) -> bool:
    own = types.get(_number(node, _ID), "")
    for number, body in fields(node):
        if not isinstance(body, bytes) or number not in (_CALL, _LIST, _STRUCT):
            continue
        if number == _CALL:
            hiding = message(body, 2) in _HIDING
            kinds = [types.get(_number(part, _ID), "") for part in _parts(number, body)]
            return DYN in own and any(OPTIONAL in kind and (hiding or kind[:3] in ("lis", "map")) for kind in kinds)
        kinds = [types.get(_number(part, _ID), "") for part in _given(number, body)]
        return (on_lists or DYN in own) and any(OPTIONAL in kind for kind in kinds)
    return False


def _given(number: int, body: bytes) -> list[bytes]:
    """Return the elements or values of a literal, without those that are unwrapped (`[?x]`, `{?k: x}`)."""
    if number == _STRUCT:
        entries = [each for kind, each in fields(body) if kind == 2 and isinstance(each, bytes)]
        return [message(each, 4) for each in entries if not _number(each, _OPTIONAL_ENTRY)]
    unwrapped = {at for kind, each in fields(body) if kind == 2 for at in _indices(each)}
    elements = [each for kind, each in fields(body) if kind == 1 and isinstance(each, bytes)]
    return [each for at, each in enumerate(elements) if at not in unwrapped]


def _indices(value: Value) -> list[int]:
    """Return the numbers of a repeated field, packed or not."""
    if isinstance(value, int):
        return [value]
    found, number, shift = [], 0, 0
    for byte in bytes(value):
        number, shift = number | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            found.append(number)
            number = shift = 0
    return found


def _number(node: bytes, wanted: int) -> int:
    return next((value for number, value in fields(node) if number == wanted and isinstance(value, int)), 0)
