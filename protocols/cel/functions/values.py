"""Values that Python has no type for, errors, and the budget of an evaluation.

int, float, str, bytes, bool, None, list and dict stand for themselves. Python takes True for the key 1, so that the
keys true and false of a map are objects of their own.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from protocols.cel.text.source import EvaluationError

MIN_INT, MAX_INT, MAX_UINT = -(2**63), 2**63 - 1, 2**64 - 1
NANO = 10**9
FIRST_NANOS, LAST_NANOS = -62135596800 * NANO, 253402300799 * NANO + NANO - 1
"""The years 1 to 9999."""
EXCEEDED = "operation cancelled: actual cost limit exceeded"
Frame = list[Any]
"""Budget that is left, then the values of variables."""


class Spent(Exception):
    """Raised inside the evaluator when the budget is spent. No operator absorbs it; becomes an EvaluationError."""


def charge(frame: Frame, units: int) -> None:
    """Take units before the work that they stand for. Raises Spent."""
    frame[0] -= units
    if frame[0] < 0:
        raise Spent


class Uint(int):
    """An unsigned integer; it equals the int of the same value, as in CEL."""

    __slots__ = ()


class Timestamp(msgspec.Struct, frozen=True, order=True, gc=False):
    """A point in time with nanoseconds, years 1 to 9999."""

    nanos: int
    """Since 1970."""


class Duration(msgspec.Struct, frozen=True, order=True, gc=False):
    """A span of time; `nanos` may be negative."""

    nanos: int


class Optional(msgspec.Struct, frozen=True, eq=False):
    """An optional value, `optional.of(x)` or `optional.none()`."""

    value: Any = None
    has_value: bool = True


NOTHING = Optional(None, False)


class TypeName(msgspec.Struct, frozen=True):
    """A type as a value, as `type(x)` returns it."""

    name: str


class _BoolKey(msgspec.Struct, frozen=True):
    value: bool


KEYS = {True: _BoolKey(True), False: _BoolKey(False)}


class Domains(dict[str, Any]):
    """Attributes or capacities by domain; a domain that is missing reads as an empty map."""

    __slots__ = ()


class SetList(list[Any]):
    """A list of `x-kubernetes-list-type: set`: it equals lists of other order, and `+` unites."""

    __slots__ = ()


class MapList(list[Any]):
    """A list of `x-kubernetes-list-type: map`: it equals lists of other order, and `+` replaces by key."""

    __slots__ = ("keys",)

    def __init__(self, items: Iterable[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys


LISTS = (list, SetList, MapList)
NAMES: dict[type, str] = {
    int: "int",
    Uint: "uint",
    float: "double",
    bool: "bool",
    str: "string",
    bytes: "bytes",
    **dict.fromkeys(LISTS, "list"),
    dict: "map",
    Domains: "map",
    type(None): "null_type",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    Optional: "optional_type",
    TypeName: "type",
}
"""Names of types; libraries add theirs."""


def type_name(value: Any) -> str:
    """Return CEL's name of a value's type."""
    return NAMES.get(type(value), "dyn")


def no_overload(name: str = "") -> EvaluationError:
    """Return the error of a call for which no overload takes the arguments."""
    return EvaluationError(f"no such overload: {name}" if name else "no such overload")


def key_of(value: Any) -> Any:
    """Return the key of a map that stands for a value. Raises EvaluationError."""
    kind = type(value)
    if kind is bool:
        return KEYS[value]
    if kind in (str, int, Uint, float):
        return value
    raise EvaluationError("unsupported key type")


def value_of(key: Any) -> Any:
    """Return the key of a map as a value."""
    return key.value if type(key) is _BoolKey else key


def int_of(number: int) -> int:
    """Return an int; raises EvaluationError beyond 64 bits."""
    if MIN_INT <= number <= MAX_INT:
        return number
    raise EvaluationError("integer overflow")


def uint_of(number: int) -> Uint:
    """Return a uint; raises EvaluationError below zero and beyond 64 bits."""
    if 0 <= number <= MAX_UINT:
        return Uint(number)
    raise EvaluationError("unsigned integer overflow")


def duration_of(nanos: int) -> Duration:
    """Return a duration; raises EvaluationError beyond 64 bits of nanoseconds."""
    if MIN_INT <= nanos <= MAX_INT:
        return Duration(nanos)
    raise EvaluationError("duration overflow")


def timestamp_of(nanos: int) -> Timestamp:
    """Return a timestamp; raises EvaluationError outside the years 1 to 9999."""
    if FIRST_NANOS <= nanos <= LAST_NANOS:
        return Timestamp(nanos)
    raise EvaluationError("timestamp overflow")


def tenth(size: int) -> int:
    """Return upstream's price of reading `size` characters."""
    return (size + 9) // 10
