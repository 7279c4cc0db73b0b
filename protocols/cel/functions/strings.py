"""The library of strings: indexing, splitting, replacing, patterns and `format`."""

import math
from collections.abc import Callable, Iterator
from typing import Any

from protocols.cel.functions.conversions import write_double, write_duration, write_timestamp
from protocols.cel.functions.operators import MAPS
from protocols.cel.functions.patterns import UNITS, matcher_of, pattern_cost
from protocols.cel.functions.registry import define
from protocols.cel.functions.values import (
    LISTS,
    Duration,
    Frame,
    Timestamp,
    TypeName,
    Uint,
    charge,
    tenth,
    type_name,
    value_of,
)
from protocols.cel.text.source import EvaluationError

_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


def _walk(text: str, *_: Any) -> int:
    return max(1, tenth(len(text)))


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if not part:
        return len(text) if start is None else start
    if start is None:
        return _from_behind(text, part)
    if start < 0:
        raise _out_of_range(start)
    return _from_behind(text[: start + len(part)], part) if start < len(text) else -1


def _from_behind(text: str, part: str) -> int:
    """Return the last place of `part`, -1 if there is none. Unlike rfind, it takes linear time."""
    place = text[::-1].find(part[::-1])
    return len(text) - len(part) - place if place >= 0 else -1


def _substring(text: str, start: int, end: int | None = None) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end is None:
        return text[start:]
    if not 0 <= end <= len(text):
        raise _out_of_range(end)
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _split(text: str, by: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if by:
        return text.split(by, most - 1 if most > 0 else -1)
    if most < 0 or most >= len(text):
        return list(text)
    return [*text[: most - 1], text[most - 1 :]]


def _split_price(text: str, by: str, most: int = -1) -> int:
    """Upstream's, and the texts of the result."""
    return max(1, tenth(2 * len(text)), len(text) // 2 if not by else text.count(by))


def _replace_price(text: str, old: str, new: str, most: int = -1) -> int:
    count = text.count(old) if old else len(text) + 1
    count = count if most < 0 else min(count, most)
    return max(1, tenth(2 * len(text)), tenth(len(text) + count * max(0, len(new) - len(old))))


def _joined(frame: Frame, parts: list[Any], between: str = "") -> str:
    charge(frame, len(parts) // 4)
    size = len(between) * max(0, len(parts) - 1)
    for part in parts:
        if type(part) is not str:
            raise EvaluationError("no such overload: join")
        size += len(part)
    charge(frame, tenth(2 * size))
    return between.join(parts)


_QUOTES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\"}
_QUOTES['"'] = '\\"'
_QUOTED = str.maketrans(_QUOTES)


def _pattern_price(text: str, pattern: str) -> int:
    """Upstream's, and what reading an unusual pattern takes."""
    walked = tenth(len(text) + 1) * max(1, math.ceil(len(pattern) * 0.25))
    return walked + min(UNITS, pattern_cost(pattern)) + 2


def _matches(text: str, pattern: str) -> bool:
    return matcher_of(pattern).search(text.encode()) is not None


def _finder(pattern: str) -> Any:
    try:
        return matcher_of(pattern)
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    return next(_found(_finder(pattern), text.encode()), "")


def _find_all(frame: Frame, text: str, pattern: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    matches: list[str] = []
    for match in _found(_finder(pattern), text.encode()):
        charge(frame, 10)
        matches.append(match)
        if len(matches) == most:
            break
    return matches


def _found(matcher: Any, data: bytes) -> Iterator[str]:
    """Yield matches as Go does: an empty one is none directly behind another."""
    at, end = 0, -1
    while at <= len(data):
        match = matcher.search(data, at)
        if match is None:
            return
        begin, stop = match.span()
        if stop > begin or begin != end:
            yield data[begin:stop].decode(errors="replace")
        end = stop
        at = stop if stop > begin else _next(data, stop)


def _next(data: bytes, at: int) -> int:
    """Return where the next character begins."""
    at += 1
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1
    return at


PRECISION = 1000
"""Largest precision of a number in `format`."""


def _format(frame: Frame, template: str, values: list[Any]) -> str:
    """`%s %d %f %e %b %o %x %X %%`, each piece charged by its length."""
    pieces: list[str] = []
    waiting = iter(values)
    at = 0
    while True:
        mark = template.find("%", at)
        if mark < 0:
            pieces.append(template[at:])
            break
        pieces.append(template[at:mark])
        at, precision = _precision(template, mark + 1)
        verb = template[at : at + 1]
        at += 1
        charge(frame, 2)
        if verb == "%":
            pieces.append("%")
            continue
        writer = _VERBS.get(verb)
        if writer is None:
            raise EvaluationError(
                f'could not parse formatting clause: unrecognized formatting clause "{verb}"' if verb else
                "could not parse formatting clause: unexpected end of string"
            )  # fmt: skip
        value = next(waiting, waiting)
        if value is waiting:
            raise EvaluationError(f"index {len(values)} out of range")
        piece = writer(frame, value, precision)
        charge(frame, tenth(len(piece)))
        pieces.append(piece)
    return "".join(pieces)


def _precision(template: str, at: int) -> tuple[int, int]:
    if template[at : at + 1] != ".":
        return at, -1
    end = at + 1
    while template[end : end + 1].isascii() and template[end : end + 1].isdigit():
        end += 1
    if not 1 <= end - at - 1 <= 4 or int(template[at + 1 : end]) > PRECISION:
        raise EvaluationError("could not parse formatting clause: error while parsing precision")
    return end, int(template[at + 1 : end])


def _fault(verb: str, value: Any) -> EvaluationError:
    return EvaluationError(f"error during formatting: %{verb} cannot format a value of type {type_name(value)}")


def _as_text(frame: Frame, value: Any, precision: int = -1, depth: int = 0) -> str:
    kind = type(value)
    if kind is str:
        return str(value)
    charge(frame, 2)
    if depth > 64:
        raise EvaluationError("error during formatting: too deeply nested")
    if kind in LISTS:
        return "[" + ", ".join([_as_text(frame, item, -1, depth + 1) for item in value]) + "]"
    if kind in MAPS:
        parts = sorted(
            (_as_text(frame, value_of(key)), _as_text(frame, element, -1, depth + 1)) for key, element in value.items()
        )
        charge(frame, len(parts))
        return "{" + ", ".join(f"{key}: {element}" for key, element in parts) + "}"
    writer = _TEXTS.get(kind)
    if writer is None:
        raise EvaluationError(
            "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, "
            f"lists, types, durations, and timestamps, was given {type_name(value)}"
        )
    return writer(value)


_TEXTS: dict[type, Callable[[Any], str]] = {
    int: str,
    Uint: lambda value: str(int(value)),
    bool: lambda value: "true" if value else "false",
    float: write_double,
    bytes: lambda value: value.decode(errors="replace"),
    type(None): lambda value: "null",
    TypeName: lambda value: value.name,
    Timestamp: write_timestamp,
    Duration: write_duration,
}


def _decimal(frame: Frame, value: Any, precision: int) -> str:
    if type(value) not in (int, Uint):
        if type(value) is float and not math.isfinite(value):
            return write_double(value)
        raise _fault("d", value)
    return str(int(value))


_ENDLESS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Texts that `%f` and `%e` take for numbers."""


def _floating(verb: str) -> Callable[[Frame, Any, int], str]:
    def write(frame: Frame, value: Any, precision: int) -> str:
        if type(value) is str:
            value = _ENDLESS.get(value, value)
        if type(value) not in (float, int, Uint):
            raise _fault(verb, value)
        number = float(value)
        if not math.isfinite(number):
            return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"
        charge(frame, 40)
        return f"{number:.{6 if precision < 0 else precision}{verb}}"

    return write


def _binary(frame: Frame, value: Any, precision: int) -> str:
    if type(value) not in (int, Uint, bool):
        raise _fault("b", value)
    return f"{int(value):b}"


def _octal(frame: Frame, value: Any, precision: int) -> str:
    if type(value) not in (int, Uint):
        raise _fault("o", value)
    return f"{int(value):o}"


def _hexadecimal(verb: str) -> Callable[[Frame, Any, int], str]:
    def write(frame: Frame, value: Any, precision: int) -> str:
        kind = type(value)
        if kind in (int, Uint):
            return f"{int(value):{verb}}"
        if kind not in (str, bytes):
            raise _fault(verb, value)
        charge(frame, tenth(len(value)))
        data: bytes = value.encode() if kind is str else value
        return data.hex().upper() if verb == "X" else data.hex()

    return write


_VERBS: dict[str, Callable[[Frame, Any, int], str]] = {
    "s": _as_text,
    "d": _decimal,
    "f": _floating("f"),
    "e": _floating("e"),
    "b": _binary,
    "o": _octal,
    "x": _hexadecimal("x"),
    "X": _hexadecimal("X"),
}


def _both(text: str, part: str, *_: Any) -> int:
    return max(1, tenth(len(text)) * tenth(len(part)))


def _lower(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_LOWER)


def _upper(text: str) -> str:
    return text.upper() if text.isascii() else text.translate(_UPPER)


def _found_price(text: str, part: str, *_: Any) -> int:
    return max(1, tenth(len(text) + len(part)))


def _defined() -> None:
    one, two, three = (str,), (str, str), (str, str, int)
    define("startsWith", two, str.startswith, _walk)
    define("endsWith", two, str.endswith, _walk)
    define("contains", two, str.__contains__, _both)
    define("charAt", (str, int), _char_at)
    define("lowerAscii", one, _lower, _walk)
    define("upperAscii", one, _upper, _walk)
    define("trim", one, lambda text: text.strip(_SPACES), _walk)
    define("strings.quote", one, lambda text: f'"{text.translate(_QUOTED)}"', lambda text: 4 * tenth(len(text)) + 1)
    for types in (two, three):
        define("indexOf", types, _index_of, _found_price)
        define("lastIndexOf", types, _last_index_of, _found_price)
        define("split", types, _split, _split_price)
        define("find", types[:2], _find, _pattern_price)
        define("findAll", types, _find_all, lambda text, pattern, *_: _pattern_price(text, pattern), metered=True)
    for rest in ((), (int,)):
        define("substring", (str, int, *rest), _substring, _walk)
        define("replace", (str, str, str, *rest), _replace, _replace_price)
    define("matches", two, _matches, _pattern_price)
    for between in ((), (str,)):
        define("join", (list, *between), _joined, 1, metered=True)
    define("format", (str, list), _format, lambda template, values: max(1, tenth(len(template))), metered=True)


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    return text.replace(old, new, max(-1, most))


_defined()
