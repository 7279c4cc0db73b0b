"""Arithmetic, comparison, equality, membership and lookups."""

import math
import operator
from collections.abc import Callable
from typing import Any

from protocols.cel.functions.values import (
    KEYS,
    LISTS,
    MIN_INT,
    NOTHING,
    Domains,
    Duration,
    Frame,
    MapList,
    Optional,
    SetList,
    Timestamp,
    Uint,
    charge,
    duration_of,
    int_of,
    key_of,
    no_overload,
    tenth,
    timestamp_of,
    type_name,
    uint_of,
)
from protocols.cel.text.source import EvaluationError

Pair = tuple[type, type]
NUMBERS = frozenset((int, Uint, float))
MAPS = (dict, Domains)
_EMPTY: dict[str, Any] = {}
MISSING: Any = object()
PART = 2
"""Units of comparing one element."""


def _uints(work: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:
    return lambda one, other: uint_of(work(int(one), int(other)))


def _ints(work: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:
    return lambda one, other: int_of(work(one, other))


def _quotient(one: int, other: int) -> int:
    if other == 0:
        raise EvaluationError("division by zero")
    whole = abs(one) // abs(other)
    return whole if (one < 0) == (other < 0) else -whole


def _remainder(one: int, other: int) -> int:
    if other == 0:
        raise EvaluationError("modulus by zero")
    if one == MIN_INT and other == -1:
        raise EvaluationError("integer overflow")
    rest = abs(one) % abs(other)
    return -rest if one < 0 else rest


def _divided(one: float, other: float) -> float:
    try:
        return one / other
    except ZeroDivisionError:
        if one == 0 or math.isnan(one):
            return math.nan
        return math.copysign(math.inf, one) * math.copysign(1.0, other)


def _united(one: SetList, other: list[Any]) -> SetList:
    held = set(map(_identity, one))
    return SetList([*one, *{_identity(item): item for item in other if _identity(item) not in held}.values()])


def _merged(one: MapList, other: list[Any]) -> MapList:
    return MapList({**_by_key(one, one.keys), **_by_key(other, one.keys)}.values(), one.keys)


def _by_key(items: list[Any], keys: tuple[str, ...]) -> dict[Any, Any]:
    """Raises EvaluationError for an item that is no object."""
    if not all(type(item) is dict for item in items):
        raise no_overload()
    return {tuple([_identity(item.get(key)) for key in keys]): item for item in items}


def _identity(value: Any) -> Any:
    """Return what a scalar is in a set; lists and maps are each their own."""
    if type(value) is bool:
        return KEYS[value]
    return ("", id(value)) if type(value) in (*LISTS, *MAPS) else value


ADD: dict[Pair, Callable[[Any, Any], Any]] = {
    (int, int): _ints(operator.add),
    (Uint, Uint): _uints(operator.add),
    (float, float): operator.add,
    (str, str): operator.add,
    (bytes, bytes): operator.add,
    **{(list, kind): operator.add for kind in LISTS},
    **{(SetList, kind): _united for kind in LISTS},
    **{(MapList, kind): _merged for kind in LISTS},
    (Timestamp, Duration): lambda one, other: timestamp_of(one.nanos + other.nanos),
    (Duration, Timestamp): lambda one, other: timestamp_of(one.nanos + other.nanos),
    (Duration, Duration): lambda one, other: duration_of(one.nanos + other.nanos),
}
SUBTRACT: dict[Pair, Callable[[Any, Any], Any]] = {
    (int, int): _ints(operator.sub),
    (Uint, Uint): _uints(operator.sub),
    (float, float): operator.sub,
    (Timestamp, Duration): lambda one, other: timestamp_of(one.nanos - other.nanos),
    (Timestamp, Timestamp): lambda one, other: duration_of(one.nanos - other.nanos),
    (Duration, Duration): lambda one, other: duration_of(one.nanos - other.nanos),
}
ARITHMETIC: dict[str, dict[Pair, Callable[[Any, Any], Any]]] = {
    "_+_": ADD,
    "_-_": SUBTRACT,
    "_*_": {(int, int): _ints(operator.mul), (Uint, Uint): _uints(operator.mul), (float, float): operator.mul},
    "_/_": {(int, int): _ints(_quotient), (Uint, Uint): _uints(_quotient), (float, float): _divided},
    "_%_": {(int, int): _ints(_remainder), (Uint, Uint): _uints(_remainder)},
}


def sum_price(one: Any, other: Any) -> int:
    """Return the price of `+` beyond one unit: it copies texts and lists."""
    if isinstance(one, str | bytes | list) and isinstance(other, str | bytes | list):
        return max(0, tenth(len(one) + len(other)) - 1)
    return 0


def negative(value: Any) -> Any:
    """Negate a number or a duration; raises EvaluationError on overflow and for other types."""
    kind = type(value)
    if kind is int:
        return int_of(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return duration_of(-value.nanos)
    raise no_overload("-_")


_ORDERED = frozenset((str, bytes, bool, Timestamp, Duration))

ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}


def alike(one: Any, other: Any) -> tuple[Any, Any]:
    """Return a number as a double beside a double, as upstream: the largest ones are rounded."""
    if type(one) is float and type(other) in NUMBERS:
        return one, float(other)
    return (float(one), other) if type(other) is float and type(one) in NUMBERS else (one, other)


def comparable(one: Any, other: Any) -> bool:
    """Return True if two values have an order. Raises EvaluationError for NaN."""
    first, second = type(one), type(other)
    if first in NUMBERS and second in NUMBERS:
        if one != one or other != other:
            raise EvaluationError("NaN values cannot be ordered")
        return True
    return first is second and first in _ORDERED


def equal(frame: Frame, one: Any, other: Any) -> bool:
    """Compare two values of any types; each part of a list or map is charged. Raises Spent."""
    first, second = type(one), type(other)
    if first is second:
        if first is str or first is bytes:
            if (more := tenth(min(len(one), len(other)))) > 1:
                charge(frame, more - 1)
            return bool(one == other)
        if first is Optional:
            if not (one.has_value and other.has_value):
                return one.has_value is other.has_value
            charge(frame, 1)
            return equal(frame, one.value, other.value)
        if first not in MAPS and first not in LISTS:
            return bool(one == other)
    if first in NUMBERS and second in NUMBERS:
        return bool(operator.eq(*alike(one, other)))
    if first in MAPS and second in MAPS:
        return _equal_maps(frame, one, other)
    return first in LISTS and second in LISTS and _equal_lists(frame, one, other)


def _equal_lists(frame: Frame, one: list[Any], other: list[Any]) -> bool:
    if len(one) != len(other):
        return False
    if type(one) is MapList:
        charge(frame, PART * len(one))
        return _equal_maps(frame, _by_key(one, one.keys), _by_key(other, one.keys))
    if type(one) is SetList:
        charge(frame, PART * len(one))
        held = set(map(_identity, one))
        if all(_identity(item) in held for item in other):
            return True
    for first, second in zip(one, other, strict=True):
        charge(frame, PART)
        if not equal(frame, first, second):
            return False
    return True


def _equal_maps(frame: Frame, one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    if len(one) != len(other):
        return False
    for key, first in one.items():
        charge(frame, PART)
        second = other.get(key, MISSING)
        if second is MISSING or not equal(frame, first, second):
            return False
    return True


def contains(frame: Frame, value: Any, group: Any) -> bool:
    """Evaluate `value in group`: a list costs its length, a map one unit."""
    kind = type(group)
    if kind in LISTS:
        charge(frame, len(group))
        return any(equal(frame, value, member) for member in group)
    if kind in MAPS:
        charge(frame, 1)
        key = value if type(value) is str else _key(value)
        return key is not MISSING and key in group
    raise no_overload("@in")


def _key(value: Any) -> Any:
    try:
        return key_of(value)
    except EvaluationError:
        return MISSING


def looked_up(operand: Any, key: Any) -> Any:
    """Return `operand[key]`, MISSING if there is none. Raises EvaluationError for what has no parts of that kind."""
    kind = type(operand)
    if kind is dict:
        return operand.get(key if type(key) is str else key_of(key), MISSING)
    if kind in LISTS:
        index = _index(key)
        return operand[index] if 0 <= index < len(operand) else MISSING
    if kind is Domains:
        domain = operand.get(key if type(key) is str else key_of(key))
        return domain if domain is not None else _EMPTY
    return MISSING


def _index(key: Any) -> int:
    kind = type(key)
    if kind is int or kind is Uint:
        return int(key)
    if kind is float and key.is_integer():
        return int(key)
    raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")


def part(operand: Any, key: Any) -> Any:
    """Return `operand[key]` or `operand.key`; of an optional, an optional. Raises EvaluationError."""
    if type(operand) is Optional:
        return optional_part(operand, key)
    value = looked_up(operand, key)
    if value is MISSING:
        raise _missing(operand, key)
    return value


def _missing(operand: Any, key: Any) -> EvaluationError:
    if type(operand) in LISTS:
        return EvaluationError(f"index out of bounds: {_index(key)}")
    return EvaluationError(f"no such key: {written(key)}")


def written(key: Any) -> str:
    """Return a key as error texts show it, cut after 256 characters."""
    return str(key).lower() if type(key) is bool else str(key)[:256]


def optional_part(operand: Any, key: Any) -> Optional:
    """Evaluate `operand[?key]` and `operand.?key`."""
    if type(operand) is Optional:
        if not operand.has_value:
            return NOTHING
        operand = operand.value
    if type(operand) is Domains:
        value = operand.get(key, MISSING) if type(key) is str else MISSING
    else:
        value = looked_up(operand, key)
    return NOTHING if value is MISSING else Optional(value)


def has_part(operand: Any, key: str) -> bool:
    """Evaluate `has(operand.key)`."""
    return optional_part(operand, key).has_value
