"""Compile an expression, with errors in terms of the text that users wrote.

The engine accepts literals that always fail: invalid patterns, durations and times, lists and maps of mixed types. As
upstream, the check rejects them.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from protocols.cel.costs.sizes import pattern_cost
from protocols.cel.libraries.functions import ON_LISTS, as_written, renamed
from protocols.cel.libraries.named import EngineText, engine_text
from protocols.cel.text.optionals import check_optionals
from protocols.cel.text.source import (
    CompileError,
    check_length,
    check_text,
    check_tokens,
    compile_text_of,
    pointed,
    tokens,
)
from protocols.wire.protobuf import Value, fields, message

if TYPE_CHECKING:
    from cel_expr_python import cel


_CHECKED, _TYPES, _EXPRESSION, _SOURCE, _POSITIONS = 2, 3, 4, 5, 4
_ID, _CONST, _SELECT, _CALL, _LIST, _STRUCT, _LOOP = 2, 3, 5, 6, 7, 8, 9
_TEXT = 6
_CHECKS = {"matches": "''.matches(text)", "duration": "type(duration(text))", "timestamp": "type(timestamp(text))"}
DEAREST = 50_000
"""Units of a pattern that is tried: a definition may have thousands."""
PRIMITIVES = ("dyn", "bool", "int", "uint", "double", "string", "bytes")
KNOWN = ("any", "any", "timestamp", "duration")


class Fault(NamedTuple):
    """`at`: which character of the expression."""

    at: int
    message: str


def literal_faults(serialized: bytes) -> list[Fault]:
    """Return the faulty literals of a checked expression, in their order."""
    checked = message(serialized, _CHECKED)
    source = message(checked, _SOURCE)
    places = dict(_entry(each) for number, each in fields(source) if number == _POSITIONS and isinstance(each, bytes))
    types = {
        _number(each, 1): message(each, 2)
        for number, each in fields(checked)
        if number == _TYPES and isinstance(each, bytes)
    }
    found = _walk(message(checked, _EXPRESSION), types, False)
    return sorted({Fault(places.get(id_, 0), message) for id_, message in found})


def _walk(node: bytes, types: dict[int, bytes], formats: bool) -> Iterator[tuple[int, str]]:
    """`formats`: within the arguments of `format`, which may be of any kinds."""
    for number, each in fields(node):
        if not isinstance(each, bytes):
            continue
        if number == _CALL:
            name = message(each, 2).decode()
            yield from _of_call(name, each)
            formats = formats or name == "format"
        elif number == _LIST and not formats:
            yield from _of_one_kind([part for kind, part in fields(each) if kind == 1], types)
        elif number == _STRUCT and not formats and not message(each, 1):
            entries = [part for kind, part in fields(each) if kind == 2 and isinstance(part, bytes)]
            yield from _of_one_kind([message(part, 3) for part in entries], types)
            yield from _of_one_kind([message(part, 4) for part in entries], types)
        if number in (_SELECT, _CALL, _LIST, _STRUCT, _LOOP):
            for part in _parts(number, each):
                yield from _walk(part, types, formats)


def _parts(number: int, node: bytes) -> Iterator[bytes]:
    below = {_SELECT: (1,), _CALL: (1, 3), _LIST: (1,), _STRUCT: (2,), _LOOP: (2, 4, 5, 6, 7)}[number]
    for kind, each in fields(node):
        if kind in below and isinstance(each, bytes):
            if number != _STRUCT:
                yield each
            else:
                yield from (part for key, part in fields(each) if key in (3, 4) and isinstance(part, bytes))


def _of_call(name: str, call: bytes) -> Iterator[tuple[int, str]]:
    arguments = [each for number, each in fields(call) if number == 3 and isinstance(each, bytes)]
    if name in _CHECKS and arguments and not _fits(name, _text(arguments[-1])):
        yield _number(arguments[-1], _ID), f"invalid {name} argument"


def _of_one_kind(parts: list[Value], types: dict[int, bytes]) -> Iterator[tuple[int, str]]:
    """Yield the first part of another type. Dynamic parts fit: they may have a type upstream."""
    ids = [_number(part, _ID) for part in parts if isinstance(part, bytes)]
    kinds = [_named(types.get(id_, b"")) for id_ in ids]
    for id_, kind in zip(ids[1:], kinds[1:], strict=True):
        if kind != kinds[0] and "dyn" not in kind + kinds[0]:
            yield id_, f"expected type '{kinds[0]}' but found '{kind}'"
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
            inner = [_named(part) for kind, part in fields(value) if kind == 2 and isinstance(part, bytes)]
            return message(value, 1).decode() + (f"({', '.join(inner)})" if inner else "")
    return "dyn"


def _text(node: bytes) -> str | None:
    for number, value in fields(message(node, _CONST)):
        if number == _TEXT and isinstance(value, bytes):
            return value.decode()
    return None


def _number(node: bytes, wanted: int) -> int:
    return next((value for number, value in fields(node) if number == wanted and isinstance(value, int)), 0)


def _entry(node: bytes) -> tuple[int, int]:
    return _number(node, 1), _number(node, 2)


def _fits(name: str, text: str | None) -> bool:
    """None is no literal: it shows when it runs, as does a pattern that takes long to read."""
    if text is None or (name == "matches" and pattern_cost(text) > DEAREST):
        return True
    expression, error = _trial(name)
    return expression.eval(data={"text": text}).type() != error


@functools.cache
def _trial(name: str) -> tuple["cel.Expression", "cel.Type"]:
    """And the type of errors."""
    from cel_expr_python import cel

    config = cel.NewEnvConfigFromYaml("name: literals\n")
    env: cel.Env = cel.NewEnv(config=config, variables={"text": cel.Type.STRING})
    return env.compile(_CHECKS[name]), cel.Type.ERROR


Around = Mapping[str, tuple[str, str]]
"""Text put before and behind variables, by their names."""
SUSPECT = (",", "matches", "duration", "timestamp")
"""Without one of these an expression has no literals that could mean nothing."""


def prepared(source: str, around: Around | None = None) -> EngineText:
    """Raises CompileError. What could hurt the engine does not reach it."""
    check_length(source)
    check_text(source)
    found = tokens(source)
    check_tokens(found)
    return engine_text(renamed(source, found), found, around)


def compile_text(env: "cel.Env", text: EngineText) -> "cel.Expression":
    """Raises CompileError."""
    try:
        return env.compile(text.text)
    except (RuntimeError, ValueError) as error:
        raise _refusal(text, compile_text_of(str(error))) from None


def _check_optionals(serialized: bytes, text: EngineText) -> None:
    checked = message(serialized, _CHECKED)
    types = {
        _number(each, 1): _named(message(each, 2))
        for number, each in fields(checked)
        if number == _TYPES and isinstance(each, bytes)
    }
    check_optionals(message(checked, _EXPRESSION), types, any(name in text.written for name in ON_LISTS))


def check_literals(serialized: bytes, text: EngineText) -> None:
    """Raise CompileError when a checked expression has faulty literals, or optionals where no function can be."""
    if b"optional_type" in serialized:
        _check_optionals(serialized, text)
    if not any(word in text.written for word in SUSPECT):
        return
    faults = literal_faults(serialized)
    if faults:
        raise _refusal(text, "\n".join(pointed(text.text, fault.at, fault.message) for fault in faults))


def _refusal(text: EngineText, message: str) -> CompileError:
    return CompileError(f"compilation failed: {as_written(text.as_written(message))}")
