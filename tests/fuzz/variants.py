"""Variants of a checked tree: other literals, operators and parts of the same type, as other texts would have.

The native library takes a millisecond to check one text; the evaluator runs a hundred variants of it meanwhile. A
variant is named by two texts and a number, so that each one can be made again.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Any

from protocols.cel.evaluation.tree import (
    Call,
    Const,
    ListLiteral,
    Loop,
    MapEntry,
    MapLiteral,
    Message,
    Names,
    Node,
    Select,
    free_names,
    parts_of,
    tree_of,
    types_of,
)
from protocols.cel.functions.values import MAX_INT, MIN_INT, NANO, Duration, Timestamp, Uint

CONSTANTS: Mapping[type, tuple[Any, ...]] = {
    bool: (True, False),
    int: (0, 1, -1, 2, 3, 7, 63, 64, 65, 300, 1000, 9990, 1 << 31, 1 << 53, MAX_INT, MAX_INT - 1, MIN_INT),
    Uint: (*map(Uint, (0, 1, 7, 64, 1 << 63, (1 << 64) - 1)),),
    float: (0.0, -0.0, 0.1, 1.5, -2.5, 1e308, -1e308, 1e-320, 9.2e18, 1.8e19, float("nan"), float("inf")),
    str: (
        "", "a", "b", "x", "name", "n", "v", "zz", "spec", "dra.example.com", "é𝄞", "\0", "%s%d", "%.3f", "%x%e%b%%",
        "%.40f", ",", "a,b,,c", "10.0.0.0/8", "::/0", "::1", "10.0.0.1", "1.2.3", "v1.0", "1Gi", "1e3", "-1500m",
        "9" * 40, "https://a.b:1/c?d=e", "a*", "(a|b)+$", "[a-z]{2,9}", "(", "2020-01-01T00:00:00Z", "1h", "-9ns",
        "UTC", "Europe/Berlin", "+23:59", "uuid", "date", "dns1123Label", "ab" * 150, "~1/",
    ),
    bytes: (b"", b"a", b"\xff\x00", b"ab" * 150),
    Duration: (*map(Duration, (0, 1, -1, 3600 * NANO, MAX_INT, MIN_INT)),),
    Timestamp: (*map(Timestamp, (0, -1, 1600000000 * NANO, -62135596800 * NANO, 253402300799 * NANO)),),
    type(None): (None,),
}  # fmt: skip
_LIKE = (
    ("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"),
    ("_+_", "_-_", "_*_", "_/_", "_%_"),
    ("_&&_", "_||_"),
    ("startsWith", "endsWith", "contains", "matches"),
    ("lowerAscii", "upperAscii", "trim", "strings.quote"),
    ("indexOf", "lastIndexOf"),
    ("find", "split", "findAll"),
    ("sum", "min", "max", "first", "last", "size"),
    ("sort", "distinct", "flatten", "reverse"),
    ("sets.contains", "sets.equivalent", "sets.intersects"),
    ("isGreaterThan", "isLessThan", "compareTo"),
    ("add", "sub"),
    ("isIP", "isCIDR", "isURL", "isQuantity", "isSemver"),
    ("optional.of", "optional.ofNonZeroValue"),
    ("or", "orValue"),
)
LIKE: Mapping[str, tuple[str, ...]] = {name: group for group in _LIKE for name in group}
"""Calls with the same number of parts, most of them with the same types."""
Path = tuple[int, ...]
"""Indices of parts, from the root on."""


class Variants:
    """All variants of one text, with parts of its own and of another text."""

    def __init__(self, serialized: bytes, other: bytes) -> None:
        self.tree = tree_of(serialized)
        self._types = types_of(serialized)
        self._paths = list(_paths(self.tree, ()))
        self._parts: dict[bytes, list[Node]] = {}
        self._free: dict[int, Names] = {}
        for source, tree in ((serialized, self.tree), (other, tree_of(other))):
            self._collect(tree, types_of(source), Names())

    def _collect(self, node: Node, types: Mapping[int, bytes], bound: Names) -> None:
        """Keep parts that use no variable of a loop around them."""
        kind = types.get(node.id)
        if kind and not free_names(node, self._free) & bound:
            self._parts.setdefault(kind, []).append(node)
        inner = bound | {node.accumulator, *node.variables} if isinstance(node, Loop) else bound
        for part in parts_of(node):
            self._collect(part, types, inner)

    def make(self, number: int) -> Node:
        """Return a variant with one to three changes."""
        chance, tree = random.Random(number), self.tree
        for _ in range(chance.choice((1, 1, 2, 3))):
            tree = self._changed(tree, chance.choice(self._paths), chance)
        return tree

    def _changed(self, node: Node, path: Path, chance: random.Random) -> Node:
        if not path:
            return self._other(node, chance)
        parts = parts_of(node)
        if path[0] >= len(parts):  # an earlier change put something smaller here
            return node
        changed = self._changed(parts[path[0]], path[1:], chance)
        return _with_parts(node, (*parts[: path[0]], changed, *parts[path[0] + 1 :]))

    def _other(self, node: Node, chance: random.Random) -> Node:
        if isinstance(node, Const) and chance.random() < 0.8:
            return Const(node.id, chance.choice(CONSTANTS[type(node.value)]))
        if isinstance(node, Call) and chance.random() < 0.6 and (like := LIKE.get(node.name)) is not None:
            return Call(node.id, chance.choice(like), node.parts)
        fitting = self._parts.get(self._types.get(node.id, b""))
        return chance.choice(fitting) if fitting else node


def _paths(node: Node, path: Path) -> Iterator[Path]:
    """Yield the places of what users write: macros make the rest of a loop."""
    yield path
    for at, part in enumerate(parts_of(node)):
        if not isinstance(node, Loop) or at in _written(node):
            yield from _paths(part, (*path, at))


def _written(node: Loop) -> tuple[int, ...]:
    """Return the parts of a loop that users write: a `cel.bind` is a loop over nothing."""
    return (1, 4) if isinstance(node.over, ListLiteral) and not node.over.parts else (0, 3)


def _with_parts(node: Node, parts: tuple[Node, ...]) -> Node:
    match node:
        case Call():
            return Call(node.id, node.name, parts)
        case ListLiteral():
            return ListLiteral(node.id, parts, node.optional)
        case Select():
            return Select(node.id, parts[0], node.field, node.test)
        case MapLiteral():
            pairs = zip(parts[::2], parts[1::2], node.entries, strict=True)
            return MapLiteral(node.id, tuple(MapEntry(key, value, each.optional) for key, value, each in pairs))
        case Message():
            return Message(
                node.id, node.name, tuple((name, each) for (name, _), each in zip(node.fields, parts, strict=True))
            )
        case Loop():
            over, start, condition, step, result = parts
            return Loop(node.id, node.variables, over, node.accumulator, start, condition, step, result)
    return node
