"""The libraries of lists and sets."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from protocols.cel.functions.operators import ADD, NUMBERS, comparable, equal
from protocols.cel.functions.registry import ANY, define
from protocols.cel.functions.values import (
    LISTS,
    NOTHING,
    Duration,
    Frame,
    Optional,
    charge,
    no_overload,
    tenth,
)
from protocols.cel.text.source import EvaluationError

DEEPEST = 64
"""Levels that `flatten` opens."""


def _range(count: int) -> list[int]:
    return list(range(count))


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(values):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flatten(frame: Frame, values: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Any] = []
    _open(frame, values, min(depth, DEEPEST), flat)
    return flat


def _open(frame: Frame, values: list[Any], depth: int, made: list[Any]) -> None:
    charge(frame, len(values))
    for value in values:
        if type(value) in LISTS and depth > 0:
            _open(frame, value, depth - 1, made)
        else:
            made.append(value)


def _distinct(frame: Frame, values: list[Any]) -> list[Any]:
    distinct: list[Any] = []
    seen: set[str] = set()
    for value in values:
        charge(frame, 1)
        if type(value) is str:
            if value not in seen:
                seen.add(value)
                distinct.append(value)
        elif not _in(frame, value, distinct):
            distinct.append(value)
    return distinct


def _in(frame: Frame, value: Any, values: list[Any]) -> bool:
    for element in values:
        charge(frame, 1)
        if equal(frame, element, value):
            return True
    return False


def _checked(frame: Frame, keys: list[Any]) -> None:
    """Charge for the comparisons of a sort. Raises EvaluationError if two keys have no order."""
    charge(frame, len(keys) * max(1, len(keys).bit_length()) // 2)
    for one, other in pairwise(keys):
        if type(one) is not type(other) or not comparable(one, other):
            raise EvaluationError("list elements must have the same type")
        if type(one) in (str, bytes):
            charge(frame, tenth(min(len(one), len(other))) * max(1, len(keys).bit_length()))
    if len(keys) == 1 and not comparable(keys[0], keys[0]):
        raise EvaluationError("list elements must be comparable")


def _sort(frame: Frame, values: list[Any]) -> list[Any]:
    _checked(frame, values)
    return sorted(values)


def _sort_by(frame: Frame, values: list[Any], keys: list[Any]) -> list[Any]:
    if len(values) != len(keys):
        raise no_overload("sortBy")
    _checked(frame, keys)
    return [values[at] for at in sorted(range(len(keys)), key=keys.__getitem__)]


def _end(at: int) -> Callable[[list[Any]], Optional]:
    return lambda values: Optional(values[at]) if values else NOTHING


def _unwrap(values: list[Any]) -> list[Any]:
    for value in values:
        if type(value) is not Optional:
            raise EvaluationError("value is not optional")
    return [value.value for value in values if value.has_value]


def _sum(frame: Frame, values: list[Any]) -> Any:
    charge(frame, len(values))
    if not values:
        return 0
    total = values[0]
    if type(total) not in NUMBERS and type(total) is not Duration:
        raise no_overload("sum")
    for value in values[1:]:
        add = ADD.get((type(total), type(value)))
        if add is None:
            raise no_overload("sum")
        total = add(total, value)
    return total


def _extreme(name: str, sign: Callable[[Any, Any], bool]) -> Callable[[Frame, list[Any]], Any]:
    def body(frame: Frame, values: list[Any]) -> Any:
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        _ordered_charge(frame, values)
        extreme = values[0]
        for value in values:
            if not comparable(extreme, value):
                raise no_overload(name)
            if sign(value, extreme):
                extreme = value
        return extreme

    return body


def _ordered_charge(frame: Frame, values: list[Any]) -> None:
    charge(frame, len(values))
    charge(frame, sum(tenth(len(value)) for value in values if type(value) in (str, bytes)))


def _is_sorted(frame: Frame, values: list[Any]) -> bool:
    _ordered_charge(frame, values)
    for one, other in pairwise(values):
        if not comparable(one, other):
            raise no_overload("isSorted")
        if other < one:
            return False
    return True


def _place(order: Callable[[int], Any]) -> Callable[[Frame, list[Any], Any], int]:
    def body(frame: Frame, values: list[Any], wanted: Any) -> int:
        for at in order(len(values)):
            charge(frame, 1)
            if equal(frame, values[at], wanted):
                return int(at)
        return -1

    return body


def _contains_all(frame: Frame, values: list[Any], wanted: list[Any]) -> bool:
    return all(_in(frame, item, values) for item in wanted)


def _intersects(frame: Frame, values: list[Any], others: list[Any]) -> bool:
    return any(_in(frame, other, values) for other in others)


def _equivalent(frame: Frame, values: list[Any], others: list[Any]) -> bool:
    return _contains_all(frame, values, others) and _contains_all(frame, others, values)


def _defined_lists() -> None:
    define("lists.range", (int,), _range, lambda count: max(1, count))
    define("slice", (list, int, int), _slice, lambda values, start, end: max(1, tenth(len(values))))
    define("flatten", (list,), _flatten, metered=True)
    define("flatten", (list, int), _flatten, metered=True)
    define("distinct", (list,), _distinct, metered=True)
    define("sort", (list,), _sort, metered=True)
    define("@sortByAssociatedKeys", (list, list), _sort_by, metered=True)
    define("reverse", (list,), lambda values: values[::-1], lambda values: max(1, tenth(len(values))))
    define("first", (list,), _end(0))
    define("last", (list,), _end(-1))
    for name in ("optional.unwrap", "unwrapOpt"):
        define(name, (list,), _unwrap, lambda values: max(1, len(values)))
    define("sum", (list,), _sum, 0, metered=True)
    define("min", (list,), _extreme("min", lambda one, other: one < other), 0, metered=True)
    define("max", (list,), _extreme("max", lambda one, other: one > other), 0, metered=True)
    define("isSorted", (list,), _is_sorted, 0, metered=True)
    define("indexOf", (list, ANY), _place(range), 0, metered=True)
    define("lastIndexOf", (list, ANY), _place(lambda count: range(count - 1, -1, -1)), 0, metered=True)
    define("sets.contains", (list, list), _contains_all, metered=True)
    define("sets.intersects", (list, list), _intersects, metered=True)
    define("sets.equivalent", (list, list), _equivalent, metered=True)


_defined_lists()
