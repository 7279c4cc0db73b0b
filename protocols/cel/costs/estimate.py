"""The worst case of a checked expression, in upstream's units, without running it.

A walk over the tree that carries how large each value can be: strings that double, lists of lists and loops in loops
are seen before anything is evaluated. Sizes are pessimistic where nothing is known.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from protocols.cel.costs.rules import RULES, linear
from protocols.cel.costs.sizes import (
    DOMAINS,
    FAR,
    ONE,
    UNKNOWN,
    Declared,
    Size,
    element,
    largest,
    pattern_cost,
    product,
    selected,
    total,
)
from protocols.cel.text.nodes import (
    CALL,
    CHECKED,
    CONST,
    EXPRESSION,
    IDENT,
    LIST,
    LOOP,
    SELECT,
    STRUCT,
    messages,
    text_of,
)
from protocols.wire.protobuf import Value, fields, message

LIMIT = 1_000_000


class Worst(NamedTuple):
    cost: int
    size: Size


NAMES: Mapping[str, Worst] = {
    "device.driver": Worst(2, Size(63, 63)),
    "device.allowMultipleAllocations": Worst(2, ONE),
    "device.attributes": Worst(2, DOMAINS),
    "device.capacity": Worst(2, DOMAINS),
}
Scope = Mapping[str, Size]


def cost_of(serialized: bytes, names: Scope | None = None) -> int:
    """Return the cost of a checked expression as the engine serializes it.

    `names` are sizes of variables other than those of devices.
    """
    return _walk(message(message(serialized, CHECKED), EXPRESSION), names or {}).cost


def _walk(node: bytes, scope: Scope) -> Worst:
    for number, value in fields(node):
        if (walk := _WALKS.get(number)) is not None and isinstance(value, bytes):
            return walk(value, scope)
    return Worst(0, ONE)


def _const(value: bytes, scope: Scope) -> Worst:
    lengths = [len(each) for number, each in fields(value) if number in (6, 7) and isinstance(each, bytes)]
    return Worst(0, Size(lengths[0], lengths[0]) if lengths else ONE)


def _ident(value: bytes, scope: Scope) -> Worst:
    name = message(value, 1).decode()
    if name in scope:
        return Worst(1, scope[name])
    return NAMES.get(name, Worst(1, UNKNOWN))


def _select(value: bytes, scope: Scope) -> Worst:
    operand = _walk(message(value, 1), scope)
    return Worst(total(operand.cost, 1), selected(operand.size, message(value, 2).decode()))


def _call(value: bytes, scope: Scope) -> Worst:
    name, target, arguments = "", b"", []
    for number, each in fields(value):
        if isinstance(each, bytes):
            if number == 1:
                target = each
            elif number == 2:
                name = each.decode()
            elif number == 3:
                arguments.append(each)
    parts = [_walk(each, scope) for each in ([target] if target else []) + arguments]
    if name == "lists.range":
        parts = [Worst(part.cost, _literal(each)) for part, each in zip(parts[-1:], arguments[-1:], strict=True)]
    elif name in ("matches", "find", "findAll") and arguments:
        at = -1 if name == "matches" else -len(arguments)
        parts[at] = Worst(pattern_cost(text_of(arguments[at])), parts[at].size)
    if name == "_?._" and (field := text_of(arguments[-1])) is not None:
        return Worst(total(1, *(part.cost for part in parts)), selected(parts[0].size, field))
    own, size = RULES.get(name, linear)([part.size for part in parts])
    return Worst(total(own, *(part.cost for part in parts)), size)


def _list(value: bytes, scope: Scope) -> Worst:
    parts = [_walk(each, scope) for each in messages(value, 1)]
    deep = total(len(parts), *(part.size.deep for part in parts))
    size = Declared(len(parts), deep, largest([part.size for part in parts])) if parts else Size(0, deep)
    return Worst(total(10, _beyond(len(parts)), *(part.cost for part in parts)), size)


def _struct(value: bytes, scope: Scope) -> Worst:
    parts, count = [], 0
    for number, entry in fields(value):
        if number == 2 and isinstance(entry, bytes):
            count += 1
            parts += [_walk(each, scope) for k, each in fields(entry) if k in (3, 4) and isinstance(each, bytes)]
    deep = total(count, *(part.size.deep for part in parts))
    return Worst(total(30, 4 * _beyond(count), *(part.cost for part in parts)), Size(count, deep))


def _beyond(count: int) -> int:
    """Upstream has one price for lists of all lengths; ours cost what they are long."""
    return max(0, count - 16)


def _comprehension(value: bytes, scope: Scope) -> Worst:
    part: dict[int, bytes] = {number: each for number, each in fields(value) if isinstance(each, bytes)}
    over, start = _walk(part[2], scope), _walk(part[4], scope)
    item, accumulator = element(over.size), part[3].decode()
    inner = {**scope, part[1].decode(): item, accumulator: start.size}
    if 8 in part:
        inner[part[8].decode()] = item
    turns = over.size.length
    step = _walk(part[6], inner) if turns else Worst(0, ONE)
    if turns and step.size.deep > start.size.deep:
        inner[accumulator] = grown = _grown(start.size, step.size, turns)
        step = Worst(_walk(part[6], inner).cost, grown)
    condition = _walk(part[5], inner) if turns else Worst(0, ONE)
    result = _walk(part[7], {**scope, accumulator: inner[accumulator]})
    turn = total(condition.cost, step.cost)
    return Worst(total(over.cost, start.cost, product(turns, turn), result.cost), result.size)


def _grown(start: Size, step: Size, turns: int) -> Size:
    """An accumulator to which every turn adds what the first one did; one that can double is far beyond any limit."""
    more, deeper = step.length - start.length, step.deep - start.deep
    length, deep = total(start.length, product(turns, max(more, 0))), total(start.deep, product(turns, max(deeper, 0)))
    item = step.item if isinstance(step, Declared) else None
    return Size(length, deep) if item is None else Declared(length, deep, item)


_WALKS: Mapping[int, Callable[[bytes, Scope], Worst]] = {
    CONST: _const,
    IDENT: _ident,
    SELECT: _select,
    CALL: _call,
    LIST: _list,
    STRUCT: _struct,
    LOOP: _comprehension,
}


def _literal(node: bytes) -> Size:
    """Return the size of lists.range of this argument."""
    for number, value in fields(node):
        if number == CONST and isinstance(value, bytes):
            count: Value = next((each for kind, each in fields(value) if kind == 3), 0)
            return Size(min(int(count), FAR), min(int(count), FAR)) if isinstance(count, int) else ONE
    return Size(FAR, FAR)
