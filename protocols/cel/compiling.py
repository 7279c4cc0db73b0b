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
from protocols.cel.text.maps import check_maps, makes_maps, runnable
from protocols.cel.text.nodes import (
    ARGUMENTS,
    CALL,
    CHECKED,
    EXPRESSION,
    FUNCTION,
    ID,
    KEY,
    LIST,
    SOURCE,
    STRUCT,
    TYPES,
    VALUE,
    messages,
    number_of,
    parts,
    text_of,
)
from protocols.cel.text.optionals import LOOKUPS, check_optionals
from protocols.cel.text.source import (
    CompileError,
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


_POSITIONS = 4
"""Field of the source."""
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
    checked = message(serialized, CHECKED)
    source = message(checked, SOURCE)
    places = {number_of(each, 1): number_of(each, 2) for each in messages(source, _POSITIONS)}
    types = {number_of(each, 1): message(each, 2) for each in messages(checked, TYPES)}
    found = _walk(message(checked, EXPRESSION), types, False)
    return sorted({Fault(places.get(id_, 0), message) for id_, message in found})


def _walk(node: bytes, types: dict[int, bytes], formats: bool) -> Iterator[tuple[int, str]]:
    """`formats`: within the arguments of `format`, which may be of any kinds."""
    for number, each in fields(node):
        if not isinstance(each, bytes):
            continue
        if number == CALL:
            name = message(each, FUNCTION).decode()
            yield from _of_call(name, each)
            formats = formats or name == "format"
        elif number == LIST and not formats:
            yield from _of_one_kind(messages(each, 1), types)
        elif number == STRUCT and not formats and not message(each, 1):
            entries = messages(each, 2)
            yield from _of_one_kind([message(part, KEY) for part in entries], types)
            yield from _of_one_kind([message(part, VALUE) for part in entries], types)
        for part in parts(number, each):
            yield from _walk(part, types, formats)


def _of_call(name: str, call: bytes) -> Iterator[tuple[int, str]]:
    arguments = messages(call, ARGUMENTS)
    if name in _CHECKS and arguments and not _fits(name, text_of(arguments[-1])):
        yield number_of(arguments[-1], ID), f"invalid {name} argument"


def _of_one_kind(nodes: list[bytes], types: dict[int, bytes]) -> Iterator[tuple[int, str]]:
    """Yield the first part of another type. Dynamic parts fit: they may have a type upstream."""
    ids = [number_of(node, ID) for node in nodes]
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
            inner = [_named(part) for part in messages(value, 2)]
            return message(value, 1).decode() + (f"({', '.join(inner)})" if inner else "")
    return "dyn"


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


def result_type(expression: "cel.Expression") -> str:
    """Return the engine's name of the result's type. Raises CompileError for a map whose keys can be none."""
    try:
        return str(expression.return_type().name())
    except RuntimeError as error:
        raise CompileError(f"compilation failed: {compile_text_of(str(error))}") from None


def compile_to_run(env: "cel.Env", text: EngineText) -> "cel.Expression":
    """Compile a text that was checked, in an environment with functions. Raises CompileError."""
    if not makes_maps(text.text):
        return compile_text(env, text)
    return compile_text(env, EngineText(runnable(text.text)))


def _check_types(serialized: bytes, text: EngineText) -> None:
    """Raise CompileError for a value that could not be converted to Python."""
    checked = message(serialized, CHECKED)
    types = {number_of(each, 1): _named(message(each, 2)) for each in messages(checked, TYPES)}
    expression = message(checked, EXPRESSION)
    check_optionals(expression, types, any(name in text.text for name in ON_LISTS))
    if makes_maps(text.text):
        check_maps(types.values(), text.text)


def check_literals(serialized: bytes, text: EngineText) -> None:
    """Raise CompileError when a checked expression has faulty literals, or values that no function can be given."""
    if makes_maps(text.text) or any(word in serialized for word in (b"optional_type", *LOOKUPS)):
        _check_types(serialized, text)
    if not any(word in text.written for word in SUSPECT):
        return
    faults = literal_faults(serialized)
    if faults:
        raise _refusal(text, "\n".join(pointed(text.text, fault.at, fault.message) for fault in faults))


def _refusal(text: EngineText, message: str) -> CompileError:
    return CompileError(f"compilation failed: {as_written(text.as_written(message))}")
