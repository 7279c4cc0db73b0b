"""The JSONPath dialect of kubectl, used by printer columns.

Supports fields, indexes, slices, wildcards, unions, filters and recursive descent (`..`). Evaluation counts the values
that it visits against the budget of its caller.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from protocols.errors import NodeplaneError
from protocols.kinds.check.budget import spend

MOST_DIGITS = 18
"""Longer integers are compared as floats."""
NUMBER = re.compile(r"[-+]?\d+(\.\d*)?")
QUOTED = re.compile(r"""("|')((?:\\.|(?!\1)[^\\])*)\1""")
SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _Literal(NamedTuple):
    value: Any


def literal(text: str) -> _Literal | None:
    """Parse a quoted string, a number or a boolean; None for anything else."""
    if text in ("true", "false"):
        return _Literal(text == "true")
    quoted = QUOTED.fullmatch(text)
    if quoted is not None:
        return _Literal(re.sub(r"\\(.)", r"\1", quoted[2]))
    if NUMBER.fullmatch(text) is None:
        return None
    return _Literal(float(text) if "." in text or len(text) > MOST_DIGITS else int(text))


def compared(left: Any, sign: str, right: Any) -> bool | None:
    """Compare two values; None if their types differ or have no order."""
    compare = SIGNS.get(sign)
    kind = type(left)
    if compare is None or kind is not type(right) or kind not in (str, int, float, bool):
        return None
    return None if kind is bool and sign not in ("==", "!=") else compare(left, right)


TOKEN = re.compile(
    r"""
    (?P<deep>\.\.)(?P<below>(?:\\.|[^\s.,\[\]$@{}\\])+)? |
    \.?\[\s*\?\((?P<filter>(?:[^"')]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')*)\)\s*\] |
    \.?\[(?P<array>[^\]]*)\] |
    \.(?P<name>(?:\\.|[^\s.,\[\]$@{}\\])+) |
    (?P<here>[$@]|\.(?=$|\[))
    """,
    re.VERBOSE,
)
SLICE = re.compile(r"(-?\d{1,18})?(:(?:-?\d{1,18})?)?(:\d{0,18})?")
TERMS = re.compile(r"([^!<>=]+)([!<>=]+)(.+)")
MOST = 10_000
"""Bound on intermediate values: each `..` and each part of a union can multiply their number."""
LONGEST = 4096
"""Characters of a path."""
Step = Callable[[list[Any]], list[Any]]


class PathInvalid(NodeplaneError, http=422, grpc="INVALID_ARGUMENT"):
    """Raised when a path cannot be parsed."""


class PathFails(NodeplaneError, http=422, grpc="INVALID_ARGUMENT"):
    """Raised when a path does not fit an object, such as an index into a map or out of bounds."""


class JsonPath:
    """A compiled path. Raises PathInvalid."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise PathInvalid(f"is an invalid path: it has {len(text)} characters, the limit is {LONGEST}")
        self.text = text
        self._steps = list(_steps(text))

    def values(self, obj: Any) -> list[Any]:
        """Return all matches; none if the path does not fit the object. Raises BudgetSpent."""
        try:
            return self.found(obj)
        except PathFails:
            return []

    def found(self, obj: Any) -> list[Any]:
        """Return all matches. Raises PathFails, BudgetSpent."""
        values = [obj]
        spend(len(self._steps))
        for step in self._steps:
            if len(values) > 1:
                spend(len(values))
            values = step(values)
        return values


def _steps(text: str) -> Iterator[Step]:
    at = 0
    while at < len(text):
        token = TOKEN.match(text, at)
        if token is None:
            raise PathInvalid(f"is an invalid path: cannot read {text[at:]!r}")
        if token["here"] is None:
            yield from _read(token)
        at = token.end()


def _read(token: re.Match[str]) -> Iterator[Step]:
    if token["deep"] is not None:
        yield _descended
        if token["below"] is not None:
            yield _field(token["below"])
    elif token["filter"] is not None:
        yield _filtered(token["filter"])
    elif token["array"] is not None:
        yield _array(token["array"].strip())
    else:
        yield _field(token["name"])


def _field(name: str) -> Step:
    if name == "*":
        return _children
    plain = name.replace("\\", "")
    return lambda values: [value[plain] for value in values if isinstance(value, dict) and plain in value]


def _children(values: list[Any]) -> list[Any]:
    return _joined(value for value in values if isinstance(value, list | dict))


def _joined(parts: Iterable[list[Any] | dict[str, Any]]) -> list[Any]:
    """Return the items of lists and the values of maps. Raises PathFails beyond MOST."""
    joined: list[Any] = []
    for part in parts:
        if len(joined) + len(part) > MOST:
            raise PathFails(f"more than {MOST} values")
        joined += part if isinstance(part, list) else part.values()
    return joined


def _descended(values: list[Any]) -> list[Any]:
    """Return all non-empty maps and lists, parents first."""
    nested: list[Any] = []
    ahead = list(reversed(values))
    while ahead:
        value = ahead.pop()
        if isinstance(value, dict | list) and value:
            nested.append(value)
            spend(len(value))
            ahead += reversed(value if isinstance(value, list) else list(value.values()))
        if len(nested) > MOST:
            raise PathFails(f"more than {MOST} values")
    return nested


def _array(text: str) -> Step:
    if text[:1] in "\"'" and len(text) > 1 and text[-1] == text[0] and text[0] not in text[1:-1]:
        return _field(text[1:-1]) if text[1:-1] != "*" else _field("\\*")
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 1:
        return _united([_array(part) for part in parts])
    return _sliced("::" if text == "*" else text)


def _united(union: list[Step]) -> Step:
    def part(step: Step, values: list[Any]) -> list[Any]:
        spend(len(values))
        return step(values)

    return lambda values: _joined(part(step, values) for step in union)


def _sliced(text: str) -> Step:
    match = SLICE.fullmatch(text)
    if match is None or text in ("", "-"):
        raise PathInvalid(f"is an invalid path: invalid array index {text}")
    start, end, step = (None if part in (None, "", ":") else int(part.lstrip(":")) for part in match.groups())
    if end is None and match[2] is None:
        end = (start or 0) + 1 or None
    return lambda values: _joined(_slice(value, start, end, step) for value in values if value is not None)


def _slice(value: Any, start: int | None, end: int | None, step: int | None) -> list[Any]:
    if not isinstance(value, list):
        raise PathFails("not a list")
    length = len(value)
    first = (start or 0) + (length if start is not None and start < 0 else 0)
    last = length if end is None else end + (length if end < 0 else 0)
    if first == last:
        return []
    if not (0 <= first < length and 0 <= last <= length and first <= last) or step == 0:
        raise PathFails(f"array index out of bounds: index {first}, length {length}")
    return value[first : last : step or 1]


def _filtered(text: str) -> Step:
    terms = TERMS.fullmatch(text.strip())
    if terms is None:
        there = JsonPath(text.strip())
        return lambda values: [part for part in _parts(values) if there.values(part)]
    left, right = _term(terms[1].strip()), _term(terms[3].strip())

    def step(values: list[Any]) -> list[Any]:
        return [part for part in _parts(values) if _holds(left(part), terms[2], right(part))]

    return step


def _parts(values: list[Any]) -> list[Any]:
    if not all(isinstance(value, list) for value in values):
        raise PathFails("not a list, it cannot be filtered")
    parts = _joined(values)
    spend(len(parts))
    return parts


def _term(text: str) -> Callable[[Any], list[Any]]:
    constant: _Literal | None = literal(text)
    if constant is not None:
        value = constant.value
        return lambda part: [value]
    if text[:1] not in "@$.":
        raise PathInvalid(f"is an invalid path: unrecognized identifier {text}")
    return JsonPath(text).found


def _holds(left: list[Any], sign: str, right: list[Any]) -> bool:
    if not left or not right:
        return False
    if len(left) > 1 or len(right) > 1:
        raise PathFails("can only compare one element at a time")
    held = compared(left[0], sign, right[0])
    if held is None:
        raise PathFails("incompatible types for comparison")
    return held
