"""Compile an expression, with errors in terms of the text that users wrote.

The engine accepts literals that always fail: invalid patterns, durations, times and templates of `format`, lists and
maps of mixed types. As upstream, the check rejects them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from protocols.cel.evaluation.tree import (
    NO_VARIABLE,
    Call,
    ListLiteral,
    MapLiteral,
    Node,
    Types,
    parts_of,
    places_of,
    text_of,
    tree_of,
    types_of,
)
from protocols.cel.formatting import format_faults
from protocols.cel.functions.conversions import read_duration, read_timestamp
from protocols.cel.functions.patterns import is_pattern
from protocols.cel.libraries.functions import as_written, renamed
from protocols.cel.libraries.named import EngineText, engine_text
from protocols.cel.text.source import (
    CompileError,
    EvaluationError,
    check_length,
    check_text,
    check_tokens,
    compile_text_of,
    pointed,
    tokens,
)
from protocols.wire.protobuf import fields, message

if TYPE_CHECKING:
    from cel_expr_python import cel


_CHECKS: Mapping[str, Callable[[str], object]] = {
    "matches": is_pattern,
    "duration": read_duration,
    "timestamp": read_timestamp,
}
PRIMITIVES = ("dyn", "bool", "int", "uint", "double", "string", "bytes")
KNOWN = ("any", "any", "timestamp", "duration")


class LiteralFault(NamedTuple):
    """`at`: which character of the expression."""

    at: int
    message: str


def literal_faults(serialized: bytes) -> list[LiteralFault]:
    """Return the faulty literals of a checked expression, in their order."""
    faults = list(_walk(tree_of(serialized), types_of(serialized), False))
    places = places_of(serialized) if faults else {}
    return sorted({LiteralFault(places.get(id_, 0), message) for id_, message in faults})


def _walk(node: Node, types: Types, formats: bool) -> Iterator[tuple[int, str]]:
    """`formats`: within the arguments of `format`, which may be of any kinds."""
    if isinstance(node, Call):
        if node.name in _CHECKS and node.parts and not _fits(node.name, text_of(node.parts[-1])):
            yield node.parts[-1].id, f"invalid {node.name} argument"
        yield from format_faults(node, lambda part: _named(types.get(part.id, b"")))
        formats = formats or node.name == "format"
    elif isinstance(node, ListLiteral) and not formats:
        yield from _of_one_kind(node.parts, types)
    elif isinstance(node, MapLiteral) and not formats:
        yield from _of_one_kind([entry.key for entry in node.entries], types)
        yield from _of_one_kind([entry.value for entry in node.entries], types)
    for part in parts_of(node):
        yield from _walk(part, types, formats)


def _of_one_kind(nodes: Sequence[Node], types: Types) -> Iterator[tuple[int, str]]:
    """Yield the first part of another type. Dynamic parts fit: they may have a type upstream."""
    kinds = [_named(types.get(node.id, b"")) for node in nodes]
    for node, kind in zip(nodes[1:], kinds[1:], strict=True):
        if kind != kinds[0] and "dyn" not in kind + kinds[0]:
            yield node.id, f"expected type '{kinds[0]}' but found '{kind}'"
            return


def _named(kind: bytes) -> str:
    for number, value in fields(kind):
        if isinstance(value, int):
            return PRIMITIVES[value] if number == 3 else KNOWN[value] if number == 5 else "null"
        if number == 6:
            return f"list({_named(message(value, 1))})"
        if number == 7:
            return f"map({_named(message(value, 1))}, {_named(message(value, 2))})"
        if number == 9:
            return value.decode()
        if number == 14:
            inner = [_named(part) for number, part in fields(value) if number == 2 and isinstance(part, bytes)]
            return message(value, 1).decode() + (f"({', '.join(inner)})" if inner else "")
    return "dyn"


def _fits(name: str, text: str | None) -> bool:
    """None is no literal: it shows when it runs."""
    if text is None:
        return True
    try:
        return _CHECKS[name](text) is not False
    except EvaluationError:
        return False


Around = Mapping[str, tuple[str, str]]
"""Text put before and behind variables, by their names."""
SUSPECT = (",", "matches", "duration", "timestamp", "format")
"""Without one of these an expression has no literals that could mean nothing."""


def prepared(source: str, around: Around | None = None) -> EngineText:
    """Raises CompileError. What could hurt the engine does not reach it."""
    check_length(source)
    check_text(source)
    token_list = tokens(source)
    check_tokens(token_list)
    return engine_text(renamed(source, token_list), token_list, around)


def compile_text(env: "cel.Env", text: EngineText) -> "cel.Expression":
    """Raises CompileError."""
    try:
        expression = env.compile(text.text)
    except (RuntimeError, ValueError) as error:
        raise _refusal(text, compile_text_of(str(error))) from None
    if _SORTING in text.text:
        _check_sorting(expression.serialize(), text)
    return expression


_SORTING = "sortBy"


def _check_sorting(serialized: bytes, text: EngineText) -> None:
    """Raise CompileError for a `sortBy` without a variable, of which the native library makes an unsound tree."""
    try:
        tree_of(serialized)
    except CompileError as error:
        if str(error) != NO_VARIABLE:
            raise
        fault = str(error)
    else:
        return
    token_list = tokens(text.text)
    at = next(
        (token.end + 1 for token, after in pairwise(token_list) if token.text == _SORTING and after.text == "("), 0
    )
    raise _refusal(text, pointed(text.text, at, fault))


def result_type(expression: "cel.Expression") -> str:
    """Return the engine's name of the result's type. Raises CompileError for a map whose keys can be none."""
    try:
        return str(expression.return_type().name())
    except RuntimeError as error:
        raise CompileError(f"compilation failed: {compile_text_of(str(error))}") from None


def check_literals(serialized: bytes, text: EngineText) -> None:
    """Raise CompileError when a checked expression has faulty literals."""
    if not any(word in text.written for word in SUSPECT):
        return
    faults = literal_faults(serialized)
    if faults:
        raise _refusal(text, "\n".join(pointed(text.text, fault.at, fault.message) for fault in faults))


def _refusal(text: EngineText, message: str) -> CompileError:
    return CompileError(f"compilation failed: {as_written(text.as_written(message))}")
