"""Compile an expression, with errors in terms of the text that users wrote.

The engine accepts literals that always fail: invalid patterns, durations, times and templates of `format`, lists and
maps of mixed types. As upstream, the check rejects them.

The clauses of `format` are those of cel-go's ext/formatting.go. Calls are checked whose template and arguments are
literals; what only shows at run time stays with the evaluator.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
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

_CLAUSE = re.compile(r"%(?:(?P<percent>%)|(?P<precision>\.\d*)?(?P<verb>.)?)", re.DOTALL | re.ASCII)
_TEXTS = frozenset(
    ("list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "null", "dyn")
)
_PRECISION = "error while parsing precision"
Kind = Callable[[Node], str]
"""Returns the checker's name of a node's type."""


class _Verb(NamedTuple):
    kinds: frozenset[str]
    rule: str


_DOUBLES, _INTEGERS = frozenset(("double", "string", "dyn")), frozenset(("int", "uint", "dyn"))
_HEXADECIMAL = _Verb(
    _INTEGERS | {"string", "bytes"}, "only integers, byte buffers, and strings can be formatted as hex"
)
_VERBS: Mapping[str, _Verb] = {
    "d": _Verb(_INTEGERS, "decimal clause can only be used on integers"),
    "f": _Verb(_DOUBLES, "fixed-point clause can only be used on doubles"),
    "e": _Verb(_DOUBLES, "scientific clause can only be used on doubles"),
    "b": _Verb(_INTEGERS | {"bool"}, "only integers and bools can be formatted as binary"),
    "o": _Verb(_INTEGERS, "octal clause can only be used on integers"),
    "x": _HEXADECIMAL,
    "X": _HEXADECIMAL,
    "s": _Verb(
        _TEXTS,
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
        "and timestamps",
    ),
}


def format_faults(call: Call, kind: Kind) -> Iterator[tuple[int, str]]:
    """Yield the node and the text of the first fault of a call; nothing for other calls and for what is no literal."""
    if call.name != "format" or len(call.parts) != 2:
        return
    template, values = text_of(call.parts[0]), call.parts[1]
    if template is None or not isinstance(values, ListLiteral):
        return
    clauses = [match for match in _CLAUSE.finditer(template) if not match["percent"]]
    for at, clause in enumerate(clauses):
        if (fault := _fault(clause, values.parts[at : at + 1], at, kind)) is not None:
            yield fault[0] or call.id, fault[1]
            return
    if len(values.parts) > len(clauses):
        counts = f"(expected {len(clauses)}, got {len(values.parts)})"
        yield call.id, f"too many arguments supplied to string.format {counts}"


def _fault(clause: re.Match[str], values: tuple[Node, ...], at: int, kind: Kind) -> tuple[int, str] | None:
    """Return the fault of a clause and of its value, the only one of `values`; node 0 stands for the call."""
    precision, verb = clause["precision"], clause["verb"]
    if precision is None and not verb:
        return 0, "unexpected end of string"
    if not values:
        return 0, f"index {at} out of range"
    if (fault := _unreadable(precision, verb)) is not None:
        return 0, f"could not parse formatting clause: {fault}"
    wanted = _VERBS[verb]
    for node in _written(values[0]) if verb == "s" else values:
        found = kind(node).partition("(")[0]
        if found not in wanted.kinds:
            return node.id, f"error during formatting: {wanted.rule}, was given {found}"
    return None


def _unreadable(precision: str | None, verb: str | None) -> str | None:
    if precision is not None and not verb:
        return f"{_PRECISION}: could not find end of precision specifier"
    if precision == ".":
        return f'{_PRECISION}: error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
    return None if verb in _VERBS else f'unrecognized formatting clause "{verb}"'


def _written(node: Node) -> Iterator[Node]:
    """Yield a value and, of literals, all that is in it."""
    inner = parts_of(node) if isinstance(node, ListLiteral | MapLiteral) else ()
    return chain((node,), *map(_written, inner))


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
