"""Nodes of a checked expression as the engine serializes it, a CheckedExpr of google.api.expr.v1alpha1."""

from collections.abc import Iterator

from protocols.wire.protobuf import fields, message

CHECKED = 2
"""Field of the CheckedExpr in what the engine writes."""
TYPES, EXPRESSION, SOURCE = 3, 4, 5
"""Fields of a CheckedExpr."""
ID, CONST, IDENT, SELECT, CALL, LIST, STRUCT, LOOP = 2, 3, 4, 5, 6, 7, 8, 9
"""Fields of an expression; all but ID are its kinds, of which it has one."""
TARGET, FUNCTION, ARGUMENTS = 1, 2, 3
"""Fields of a call."""
KEY, VALUE, OPTIONAL_ENTRY = 3, 4, 5
"""Fields of an entry of a map."""
VARIABLE = 1
"""Field of a loop."""
_BELOW = {SELECT: (1,), CALL: (TARGET, ARGUMENTS), LIST: (1,), STRUCT: (2,), LOOP: (2, 4, 5, 6, 7)}


def number_of(node: bytes, field: int) -> int:
    return next((value for number, value in fields(node) if number == field and isinstance(value, int)), 0)


def messages(node: bytes, field: int) -> list[bytes]:
    """Return the messages or texts of a repeated field."""
    return [each for number, each in fields(node) if number == field and isinstance(each, bytes)]


def parts(kind: int, body: bytes) -> Iterator[bytes]:
    """Yield the direct parts of an expression of this kind; entries of a map yield keys and values."""
    below = _BELOW.get(kind, ())
    for field, each in fields(body) if below else ():
        if field in below and isinstance(each, bytes):
            if kind != STRUCT:
                yield each
            else:
                yield from (part for number, part in fields(each) if number in (KEY, VALUE) and isinstance(part, bytes))


def nodes_of(node: bytes) -> Iterator[bytes]:
    """Yield an expression and all below it."""
    yield node
    for kind, body in fields(node):
        if isinstance(body, bytes):
            for part in parts(kind, body):
                yield from nodes_of(part)


def text_of(node: bytes) -> str | None:
    """Return the value of a string literal, None for any other expression."""
    return next((each.decode() for each in messages(message(node, CONST), 6)), None)
