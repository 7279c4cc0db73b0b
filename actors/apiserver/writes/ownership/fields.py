"""Sets of field paths as FieldsV1 trees.

A tree maps elements to trees: `f:name` is a field, `k:{...}` an element of a keyed list, `v:...` a member of a set.
A `.` means that the path to this node is itself in the set, and so does an empty node. The root is never in the set, so
an empty root is the empty set. Trees are immutable.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from protocols.kube.jsons import read_json

Fields = dict[str, Any]
SELF = "."
_decode = read_json
_encode = msgspec.json.Encoder(order="sorted").encode


def member(node: Fields) -> bool:
    """Return True if the path to this node is in the set. The node is not the root."""
    return not node or SELF in node


def union(one: Fields, other: Fields) -> Fields:
    """Return the fields that are in either set."""
    return _union(one, other) if one and other else one or other


def _union(one: Fields, other: Fields) -> Fields:
    if one == other:
        return one
    both = dict(one)
    for element, node in other.items():
        before = both.get(element)
        both[element] = node if before is None else _union_below(before, node)
    return both


def _union_below(one: Fields, other: Fields) -> Fields:
    if not one:
        return {SELF: {}, **other} if other else one
    return _union(one, other) if other else {SELF: {}, **one}


def minus(one: Fields, other: Fields) -> Fields:
    """Return the paths of `one` that are not in `other`."""
    if not other:
        return one
    left = {}
    for element, node in one.items():
        against = other.get(element)
        rest = node if against is None else _minus_below(node, against)
        if rest is not None:
            left[element] = rest
    return left


def _minus_below(one: Fields, other: Fields) -> Fields | None:
    kept = member(one) and not member(other)
    below = minus({element: node for element, node in one.items() if element != SELF}, other)
    if not below:
        return {} if kept else None
    return {SELF: {}, **below} if kept else below


def touched(owned: Fields, written: Fields) -> Fields:
    """Return the paths of `owned` that a write touched: those in both, and all below values written as a whole."""
    shared = {}
    for element, node in owned.items():
        against = written.get(element)
        if against is None or element == SELF:
            continue
        both = node if not against else _touched_below(node, against)
        if both is not None:
            shared[element] = both
    return shared


def _touched_below(owned: Fields, written: Fields) -> Fields | None:
    kept = member(owned) and member(written)
    below = touched(owned, written)
    if not below:
        return {} if kept else None
    return {SELF: {}, **below} if kept else below


def paths(fields: Fields, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every path of the set."""
    for element, node in fields.items():
        if element == SELF:
            continue
        here = (*above, element)
        if member(node):
            yield here
        yield from paths(node, here)


def shown(path: tuple[str, ...]) -> str:
    """Format a path for conflicts, as `.spec.containers[name="c"].image`."""
    return "".join(map(_shown_element, path))


def _shown_element(element: str) -> str:
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "k:":
        pairs = _decode(text).items()
        return "[" + ",".join(f"{key}={_encode(value).decode()}" for key, value in pairs) + "]"
    return f"[={text}]" if kind == "v:" else f"[{text}]"


def key_element(values: dict[str, Any]) -> str:
    """Return the element of a keyed list's member: its keys as JSON."""
    return f"k:{_encode(values).decode()}"


def value_element(value: Any) -> str:
    """Return the element of a set's member: its value as JSON."""
    return f"v:{_encode(value).decode()}"
