"""The checked tree of an expression, read from what the native library serializes (a CheckedExpr)."""

import functools
import struct
from collections.abc import Callable
from typing import Any

import msgspec

from protocols.cel.functions.values import NANO, Duration, Timestamp, Uint
from protocols.cel.libraries.functions import WRITTEN
from protocols.cel.text.source import CompileError
from protocols.wire.protobuf import fields, message, varints

_CHECKED = 2
"""Field of the CheckedExpr in what the library writes."""
_TYPES, _EXPRESSION, _SOURCE = 3, 4, 5
"""Fields of a CheckedExpr."""
_ID, _CONST, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _LOOP = 2, 3, 4, 5, 6, 7, 8, 9
"""Fields of an expression; all but ID are its kinds, of which it has one."""
_PLACES = 4
"""Field of the source."""


class Const(msgspec.Struct, frozen=True):
    """A literal, as the value of the evaluator's type."""

    id: int
    value: Any


class Ident(msgspec.Struct, frozen=True):
    """A variable, or the first part of a qualified name."""

    id: int
    name: str


class Select(msgspec.Struct, frozen=True):
    """A field of a value, or the test that it has the field."""

    id: int
    operand: "Node"
    field: str
    test: bool
    """`has(operand.field)`."""


class Call(msgspec.Struct, frozen=True):
    """A call of a function, method or operator."""

    id: int
    name: str
    parts: "tuple[Node, ...]"
    """The target of a method first."""


class ListLiteral(msgspec.Struct, frozen=True):
    """A list; elements at the places `optional` are optional values, left out if they have none."""

    id: int
    parts: "tuple[Node, ...]"
    optional: frozenset[int]


class MapEntry(msgspec.Struct, frozen=True):
    """One entry of a map literal; an optional value without a value leaves it out."""

    key: "Node"
    value: "Node"
    optional: bool


class MapLiteral(msgspec.Struct, frozen=True):
    """A map, as written in the expression."""

    id: int
    entries: tuple[MapEntry, ...]


class Message(msgspec.Struct, frozen=True):
    """A message literal, `Object{...}`; absent fields keep their zero values."""

    id: int
    name: str
    fields: "tuple[tuple[str, Node], ...]"


class Loop(msgspec.Struct, frozen=True):
    """A comprehension, to which macros such as `all` and `map` expand; `accumulator` names what each step replaces."""

    id: int
    variables: tuple[str, ...]
    over: "Node"
    accumulator: str
    start: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"


Node = Const | Ident | Select | Call | ListLiteral | MapLiteral | Message | Loop
Types = dict[int, bytes]
Places = dict[int, int]


@functools.lru_cache(maxsize=8)
def tree_of(serialized: bytes) -> Node:
    """Raises CompileError for a part that no macro makes."""
    return _node(message(message(serialized, _CHECKED), _EXPRESSION))


def types_of(serialized: bytes) -> Types:
    """Return the types of nodes by their ids, as the library writes them."""
    return {_number(entry, 1): message(entry, 2) for entry in _messages(message(serialized, _CHECKED), _TYPES)}


def places_of(serialized: bytes) -> Places:
    """Return the characters at which nodes begin, by their ids."""
    source = message(message(serialized, _CHECKED), _SOURCE)
    return {_number(entry, 1): _number(entry, 2) for entry in _messages(source, _PLACES)}


def parts_of(node: Node) -> tuple[Node, ...]:
    """Return the direct parts of a node."""
    if isinstance(node, Call | ListLiteral):
        return node.parts
    if isinstance(node, Select):
        return (node.operand,)
    if isinstance(node, MapLiteral):
        return tuple(part for entry in node.entries for part in (entry.key, entry.value))
    if isinstance(node, Message):
        return tuple(part for _, part in node.fields)
    if isinstance(node, Loop):
        return (node.over, node.start, node.condition, node.step, node.result)
    return ()


Names = frozenset[str]


def free_names(node: Node, known: dict[int, Names]) -> Names:
    """Return the variables that a node uses and does not bind itself. `known` keeps those of loops by identity."""
    if isinstance(node, Ident):
        return frozenset((node.name,))
    if not isinstance(node, Loop):
        return _free(parts_of(node), known)
    if (names := known.get(id(node))) is None:
        inside = _free((node.condition, node.step, node.result), known) - {node.accumulator, *node.variables}
        names = known[id(node)] = inside | _free((node.over, node.start), known)
    return names


def _free(nodes: tuple[Node, ...], known: dict[int, Names]) -> Names:
    return Names().union(*(free_names(node, known) for node in nodes))


def text_of(node: Node) -> str | None:
    """Return the value of a string literal, None for any other expression."""
    return node.value if isinstance(node, Const) and type(node.value) is str else None


def _number(data: bytes, field: int) -> int:
    return next((value for number, value in fields(data) if number == field and isinstance(value, int)), 0)


def _messages(data: bytes, field: int) -> list[bytes]:
    return [body for number, body in fields(data) if number == field and isinstance(body, bytes)]


def _node(data: bytes) -> Node:
    id_ = 0
    for number, body in fields(data):
        if number == _ID and isinstance(body, int):
            id_ = body
        elif (read := _READERS.get(number)) is not None and isinstance(body, bytes):
            return read(id_, body)
    raise CompileError("compilation failed: an empty expression")


def _const(id_: int, body: bytes) -> Const:
    return Const(id_, _value(body))


def _value(body: bytes) -> Any:
    for number, value in fields(body):
        if number == 1:
            return None
        if isinstance(value, int):
            return bool(value) if number == 2 else _signed(value) if number == 3 else Uint(value)
        if number == 5:
            return struct.unpack("<d", value)[0]
        if number in (6, 7):
            return value.decode() if number == 6 else value
        nanos = sum(
            _signed(time_part) * (NANO if part == 1 else 1)
            for part, time_part in fields(value)
            if isinstance(time_part, int)
        )
        return Duration(nanos) if number == 8 else Timestamp(nanos)
    return None


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _ident(id_: int, body: bytes) -> Ident:
    return Ident(id_, message(body, 1).decode().removeprefix("."))


def _select(id_: int, body: bytes) -> Select:
    test = any(number == 3 and value for number, value in fields(body))
    return Select(id_, _node(message(body, 1)), message(body, 2).decode(), test)


def _call(id_: int, body: bytes) -> Call:
    target, arguments, name = [], [], ""
    for number, value in fields(body):
        if isinstance(value, bytes):
            if number == 2:
                name = value.decode()
            elif number == 1:
                target.append(_node(value))
            elif number == 3:
                arguments.append(_node(value))
    return Call(id_, WRITTEN.get(name, name), (*target, *arguments))


def _list(id_: int, body: bytes) -> ListLiteral:
    parts, optional = [], set()
    for number, value in fields(body):
        if number == 1 and isinstance(value, bytes):
            parts.append(_node(value))
        elif number == 2:
            optional.update(varints(value))
    return ListLiteral(id_, tuple(parts), frozenset(optional))


def _struct(id_: int, body: bytes) -> MapLiteral | Message:
    name = message(body, 1).decode()
    entries, named = [], []
    for entry in _messages(body, 2):
        value = _node(message(entry, 4))
        if name:
            named.append((message(entry, 2).decode(), value))
        else:
            entries.append(MapEntry(_node(message(entry, 3)), value, bool(_number(entry, 5))))
    return Message(id_, name, tuple(named)) if name else MapLiteral(id_, tuple(entries))


def _loop(id_: int, body: bytes) -> Loop:
    part = {number: value for number, value in fields(body) if isinstance(value, bytes)}
    if 1 not in part or 3 not in part:
        raise CompileError(NO_VARIABLE)
    names = tuple(part[number].decode() for number in (1, 8) if number in part)
    over, start, condition, step, result = (_node(part[number]) for number in (2, 4, 5, 6, 7))
    return Loop(id_, names, over, part[3].decode(), start, condition, step, result)


NO_VARIABLE = "argument is not an identifier"
"""The text of CompileError for a loop without a variable, which the library makes of `sortBy(1, 2)`."""
_READERS: dict[int, Callable[[int, bytes], Node]] = {
    _CONST: _const, _IDENT: _ident, _SELECT: _select, _CALL: _call, _LIST: _list, _STRUCT: _struct, _LOOP: _loop,
}  # fmt: skip
