"""The checked tree of an expression, read from what the native library serializes (a CheckedExpr)."""

import struct
from collections.abc import Callable
from typing import Any

import msgspec

from protocols.cel.functions.values import NANO, Duration, Timestamp, Uint
from protocols.cel.libraries.functions import WRITTEN
from protocols.cel.text.nodes import (
    ARGUMENTS,
    CALL,
    CHECKED,
    CONST,
    EXPRESSION,
    FUNCTION,
    IDENT,
    KEY,
    LIST,
    LOOP,
    OPTIONAL_ENTRY,
    SELECT,
    STRUCT,
    TARGET,
    VALUE,
)
from protocols.cel.text.source import CompileError
from protocols.wire.protobuf import fields, message, varints


class Const(msgspec.Struct, frozen=True):
    value: Any


class Ident(msgspec.Struct, frozen=True):
    name: str


class Select(msgspec.Struct, frozen=True):
    operand: "Node"
    field: str
    test: bool
    """`has(operand.field)`."""


class Call(msgspec.Struct, frozen=True):
    name: str
    parts: "tuple[Node, ...]"
    """The target of a method first."""


class ListLiteral(msgspec.Struct, frozen=True):
    parts: "tuple[Node, ...]"
    optional: frozenset[int]


class Entry(msgspec.Struct, frozen=True):
    key: "Node"
    value: "Node"
    optional: bool


class MapLiteral(msgspec.Struct, frozen=True):
    entries: tuple[Entry, ...]


class Message(msgspec.Struct, frozen=True):
    name: str
    fields: "tuple[tuple[str, Node], ...]"


class Loop(msgspec.Struct, frozen=True):
    variables: tuple[str, ...]
    over: "Node"
    accumulator: str
    start: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"


Node = Const | Ident | Select | Call | ListLiteral | MapLiteral | Message | Loop
NULL = Const(None)


def tree_of(serialized: bytes) -> Node:
    """Raises CompileError for a part that no macro makes."""
    return _node(message(message(serialized, CHECKED), EXPRESSION))


def _node(data: bytes) -> Node:
    for number, body in fields(data):
        if (read := _READERS.get(number)) is not None and isinstance(body, bytes):
            return read(body)
    raise CompileError("compilation failed: an empty expression")


def _const(body: bytes) -> Const:
    for number, value in fields(body):
        if number == 1:
            return NULL
        if isinstance(value, int):
            return Const(bool(value) if number == 2 else _signed(value) if number == 3 else Uint(value))
        if number == 5:
            return Const(struct.unpack("<d", value)[0])
        if number in (6, 7):
            return Const(value.decode() if number == 6 else value)
        nanos = sum(_signed(each) * (NANO if part == 1 else 1) for part, each in fields(value) if isinstance(each, int))
        return Const(Duration(nanos) if number == 8 else Timestamp(nanos))
    return NULL


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _ident(body: bytes) -> Ident:
    return Ident(message(body, 1).decode().removeprefix("."))


def _select(body: bytes) -> Select:
    test = any(number == 3 and value for number, value in fields(body))
    return Select(_node(message(body, 1)), message(body, 2).decode(), test)


def _call(body: bytes) -> Call:
    target, arguments, name = [], [], ""
    for number, value in fields(body):
        if isinstance(value, bytes):
            if number == FUNCTION:
                name = value.decode()
            elif number == TARGET:
                target.append(_node(value))
            elif number == ARGUMENTS:
                arguments.append(_node(value))
    return Call(WRITTEN.get(name, name), (*target, *arguments))


def _list(body: bytes) -> ListLiteral:
    parts, optional = [], set()
    for number, value in fields(body):
        if number == 1 and isinstance(value, bytes):
            parts.append(_node(value))
        elif number == 2:
            optional.update(varints(value))
    return ListLiteral(tuple(parts), frozenset(optional))


def _struct(body: bytes) -> MapLiteral | Message:
    name = message(body, 1).decode()
    entries, named = [], []
    for number, entry in fields(body):
        if number != 2 or not isinstance(entry, bytes):
            continue
        value = _node(message(entry, VALUE))
        if name:
            named.append((message(entry, 2).decode(), value))
        else:
            optional = any(kind == OPTIONAL_ENTRY and each for kind, each in fields(entry))
            entries.append(Entry(_node(message(entry, KEY)), value, optional))
    return Message(name, tuple(named)) if name else MapLiteral(tuple(entries))


def _loop(body: bytes) -> Loop:
    part = {number: value for number, value in fields(body) if isinstance(value, bytes)}
    if 1 not in part or 3 not in part:
        raise CompileError("compilation failed: argument is not an identifier")
    names = tuple(part[number].decode() for number in (1, 8) if number in part)
    over, start, condition, step, result = (_node(part[number]) for number in (2, 4, 5, 6, 7))
    return Loop(names, over, part[3].decode(), start, condition, step, result)


_READERS: dict[int, Callable[[bytes], Node]] = {
    CONST: _const,
    IDENT: _ident,
    SELECT: _select,
    CALL: _call,
    LIST: _list,
    STRUCT: _struct,
    LOOP: _loop,
}
