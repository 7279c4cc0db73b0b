"""Functions on lists that upstream adds to CEL's own."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from protocols.cel.library import BOOL, DOUBLE, INT, STRING, Function

DYN, LISTS = "dyn", {kind: f"list<{kind}>" for kind in (INT, DOUBLE, STRING, BOOL)}
ANY_LIST = "list"
VALUES = (STRING, INT, DOUBLE, BOOL, "uint", "bytes", "timestamp", "duration", "null", "map", ANY_LIST)
"""All that a value can be."""
NUMBERS, ORDERED = (INT, DOUBLE), (INT, DOUBLE, STRING, BOOL)


def _least(name: str, choose: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    def body(values: list[Any]) -> Any:
        if not values:
            raise ValueError(f"{name} called on empty list")
        return choose(values)

    return body


def _sorted(values: list[Any]) -> bool:
    return all(not following < before for before, following in pairwise(values))


def _typed(name: str, kinds: tuple[str, ...], body: Callable[..., Any], result: str = "") -> tuple[Function, ...]:
    return tuple(Function(name, f"list_{kind}_{name}", result or kind, (LISTS[kind],), body) for kind in kinds)


_MIN, _MAX = _least("min", min), _least("max", max)
CHECKED = (
    *_typed("sum", NUMBERS, sum),
    *_typed("min", ORDERED, _MIN),
    *_typed("max", ORDERED, _MAX),
    *_typed("isSorted", ORDERED, _sorted, BOOL),
)
"""With the types apart."""
RUN = (
    Function("sum", "list_sum", DYN, (ANY_LIST,), sum),
    Function("min", "list_min", DYN, (ANY_LIST,), _MIN),
    Function("max", "list_max", DYN, (ANY_LIST,), _MAX),
    Function("isSorted", "list_is_sorted", BOOL, (ANY_LIST,), _sorted),
)
