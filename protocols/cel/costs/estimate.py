"""The worst case of a checked expression, in upstream's units, without running it.

A walk over the tree that carries how large each value can be: strings that double, lists of lists and loops in loops
are seen before anything is evaluated. Sizes are pessimistic where nothing is known.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from protocols.cel.costs.rules import APPENDING, NUMBERS, RULES, Rule, linear
from protocols.cel.costs.sizes import (
    DOMAINS,
    FAR,
    ONE,
    UNKNOWN,
    Declared,
    Size,
    element,
    largest,
    product,
    selected,
    total,
)
from protocols.cel.evaluation.tree import (
    Call,
    Const,
    Ident,
    ListLiteral,
    Loop,
    MapLiteral,
    Message,
    Node,
    Select,
    free_names,
    text_of,
    tree_of,
)
from protocols.cel.functions.patterns import pattern_cost
from protocols.cel.functions.values import Uint

LIMIT = 1_000_000
ACCUMULATOR = "@result"
"""The name by which macros refer to the value that they make: no expression can have it."""


class _Worst(NamedTuple):
    cost: int
    size: Size


NAMES: Mapping[str, _Worst] = {
    "device.driver": _Worst(2, Size(63, 63)),
    "device.allowMultipleAllocations": _Worst(2, ONE),
    "device.attributes": _Worst(2, DOMAINS),
    "device.capacity": _Worst(2, DOMAINS),
}


class _CostScope(NamedTuple):
    names: Mapping[str, Size]
    loops: dict[tuple[int, ...], tuple[_Worst, list[Size | None]]]
    """Loops that were walked, by themselves and the sizes of what they use.

    A turn is walked twice, so that loops in loops in loops would be walked more often than anybody can wait for.
    """
    free: dict[int, frozenset[str]]

    def extended(self, more: Mapping[str, Size]) -> "_CostScope":
        return self._replace(names={**self.names, **more})


def cost_of(serialized: bytes, names: Mapping[str, Size] | None = None) -> int:
    """Return the cost of a checked expression as the native library serializes it. Raises CompileError.

    `names` are sizes of variables other than those of devices.
    """
    return cost_of_tree(tree_of(serialized), names)


def cost_of_tree(tree: Node, names: Mapping[str, Size] | None = None) -> int:
    """Return the worst cost of a tree; `names` has sizes of variables, others are UNKNOWN."""
    return _walk(tree, _CostScope(names or {}, {}, {})).cost


def _walk(node: Node, scope: _CostScope) -> _Worst:
    return _WALKS[type(node)](node, scope)


def _const(node: Const, scope: _CostScope) -> _Worst:
    value = node.value
    return _Worst(0, Size(len(value), len(value)) if isinstance(value, str | bytes) else ONE)


def _ident(node: Ident, scope: _CostScope) -> _Worst:
    if node.name in scope.names:
        return _Worst(1, scope.names[node.name])
    return NAMES.get(node.name, _Worst(1, UNKNOWN))


def _select(node: Select, scope: _CostScope) -> _Worst:
    operand = _walk(node.operand, scope)
    return _Worst(total(operand.cost, 1), selected(operand.size, node.field))


def _call(node: Call, scope: _CostScope) -> _Worst:
    name, parts = node.name, [_walk(part, scope) for part in node.parts]
    if name == "lists.range":
        parts = [
            _Worst(part.cost, _literal(argument)) for part, argument in zip(parts[-1:], node.parts[-1:], strict=True)
        ]
    elif name in ("matches", "find", "findAll") and len(parts) > 1:
        parts[1] = _Worst(pattern_cost(text_of(node.parts[1])), parts[1].size)
    if name == "_?._" and (field := text_of(node.parts[-1])) is not None:
        return _Worst(total(1, *(part.cost for part in parts)), selected(parts[0].size, field))
    own, size = _rule(node)([part.size for part in parts])
    return _Worst(total(own, *(part.cost for part in parts)), size)


def _rule(node: Call) -> Rule:
    if node.name == "_+_":
        first, last = node.parts
        if any(isinstance(part, Const) and type(part.value) in (int, float, Uint) for part in node.parts):
            return NUMBERS
        if isinstance(first, Ident) and first.name == ACCUMULATOR and isinstance(last, ListLiteral):
            return APPENDING
    return RULES.get(node.name, linear)


def _list(node: ListLiteral, scope: _CostScope) -> _Worst:
    parts = [_walk(part, scope) for part in node.parts]
    deep = total(len(parts), *(part.size.deep for part in parts))
    size = Declared(len(parts), deep, largest([part.size for part in parts])) if parts else Size(0, deep)
    return _Worst(total(10, _beyond(len(parts)), *(part.cost for part in parts)), size)


def _map(node: MapLiteral, scope: _CostScope) -> _Worst:
    return _made([_walk(part, scope) for entry in node.entries for part in (entry.key, entry.value)], len(node.entries))


def _message(node: Message, scope: _CostScope) -> _Worst:
    return _made([_walk(part, scope) for _, part in node.fields], len(node.fields))


def _made(parts: list[_Worst], count: int) -> _Worst:
    deep = total(count, *(part.size.deep for part in parts))
    return _Worst(total(30, 4 * _beyond(count), *(part.cost for part in parts)), Size(count, deep))


def _beyond(count: int) -> int:
    """Upstream has one price for lists of all lengths; ours cost what they are long."""
    return max(0, count - 16)


def _loop(node: Loop, scope: _CostScope) -> _Worst:
    used = [scope.names.get(name) for name in sorted(free_names(node, scope.free))]
    key = (id(node), *map(id, used))
    if (cached := scope.loops.get(key)) is None:
        cached = scope.loops[key] = _comprehension(node, scope), used
    return cached[0]


def _comprehension(node: Loop, scope: _CostScope) -> _Worst:
    over, start = _walk(node.over, scope), _walk(node.start, scope)
    item, accumulator = element(over.size), node.accumulator
    inner = scope.extended({**dict.fromkeys(node.variables, item), accumulator: start.size})
    turns = over.size.length
    step = _walk(node.step, inner) if turns else _Worst(0, ONE)
    if turns and step.size.deep > start.size.deep:
        grown = _grown(start.size, step.size, turns)
        inner = inner.extended({accumulator: grown})
        step = _Worst(_walk(node.step, inner).cost, grown)
    condition = _walk(node.condition, inner) if turns else _Worst(0, ONE)
    result = _walk(node.result, scope.extended({accumulator: inner.names[accumulator]}))
    turn = total(condition.cost, step.cost)
    return _Worst(total(over.cost, start.cost, product(turns, turn), result.cost), result.size)


def _grown(start: Size, step: Size, turns: int) -> Size:
    """An accumulator to which every turn adds what the first one did; one that can double is far beyond any limit."""
    more, deeper = step.length - start.length, step.deep - start.deep
    length, deep = total(start.length, product(turns, max(more, 0))), total(start.deep, product(turns, max(deeper, 0)))
    item = step.item if isinstance(step, Declared) else None
    return Size(length, deep) if item is None else Declared(length, deep, item)


_WALKS: Mapping[type[Node], Callable[[Any, _CostScope], _Worst]] = {
    Const: _const,
    Ident: _ident,
    Select: _select,
    Call: _call,
    ListLiteral: _list,
    MapLiteral: _map,
    Message: _message,
    Loop: _loop,
}


def _literal(node: Node) -> Size:
    """Return the size of lists.range of this argument."""
    if not isinstance(node, Const) or type(node.value) is not int:
        return Size(FAR, FAR)
    count = min(max(0, node.value), FAR)
    return Size(count, count)
