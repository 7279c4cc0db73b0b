"""Compile a tree into closures over a frame.

A closure takes the frame: the budget that is left, then the values of variables. The fixed part of its cost is not
charged by itself: each compiled part carries it, and whatever may run the part charges it once, before. So the budget
is exact where it matters: loops check it at each turn, functions whose work grows check it before they begin.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from protocols.cel.evaluation.tree import (
    Call,
    Const,
    Ident,
    ListLiteral,
    Loop,
    MapEntry,
    MapLiteral,
    Message,
    Node,
    Select,
)
from protocols.cel.functions import operators
from protocols.cel.functions.registry import TABLE, Overload, find
from protocols.cel.functions.values import (
    Frame,
    Optional,
    Spent,
    TypeName,
    Uint,
    charge,
    key_of,
    no_overload,
)
from protocols.cel.text.source import EvaluationError

Closure = Callable[[Frame], Any]


class Code(NamedTuple):
    """A compiled part of an expression."""

    run: Closure
    cost: int
    """Charged by whoever runs it."""


class FrameScope(NamedTuple):
    """Slots of variables in the frame."""

    slots: Mapping[str, int]
    maker: "Maker"
    bound: frozenset[int] = frozenset()
    """Slots of `cel.bind`, which may hold an error: it counts where the variable is used."""

    def with_variables(self, *names: str) -> "tuple[FrameScope, list[int]]":
        slots = [self.maker.slot() for _ in names]
        return FrameScope({**self.slots, **dict(zip(names, slots, strict=True))}, self.maker, self.bound), slots

    def with_bound(self, name: str) -> "tuple[FrameScope, int]":
        slot = self.maker.slot()
        return FrameScope({**self.slots, name: slot}, self.maker, self.bound | {slot}), slot


Special = Callable[["Maker", Node, FrameScope], Code | None]


class Maker:
    """Compiles one tree. `special` may compile a node in its own way: variables that are read lazily."""

    def __init__(self, variables: tuple[str, ...], special: Special | None = None) -> None:
        self.size = 1 + len(variables)
        self._special = special
        self.scope = FrameScope({name: 1 + at for at, name in enumerate(variables)}, self)

    def slot(self) -> int:
        self.size += 1
        return self.size - 1

    def code(self, node: Node, scope: FrameScope) -> Code:
        if self._special is not None and (special := self._special(self, node, scope)) is not None:
            return special
        return _MAKERS[type(node)](self, node, scope)

    def codes(self, nodes: tuple[Node, ...], scope: FrameScope) -> tuple[Code, ...]:
        return tuple([self.code(node, scope) for node in nodes])


def _const(maker: Maker, node: Const, scope: FrameScope) -> Code:
    value = node.value
    return Code(lambda frame: value, 0)


def _ident(maker: Maker, node: Ident, scope: FrameScope) -> Code:
    slot = scope.slots.get(node.name)
    if slot is None:
        kind = TypeName(node.name)
        return Code(lambda frame: kind, 1)
    return Code(_bound(slot) if slot in scope.bound else lambda frame: frame[slot], 1)


def _bound(slot: int) -> Closure:
    def run(frame: Frame) -> Any:
        value = frame[slot]
        if type(value) is EvaluationError:
            raise value.with_traceback(None)
        return value

    return run


def _select(maker: Maker, node: Select, scope: FrameScope) -> Code:
    operand, cost = maker.code(node.operand, scope)
    field = node.field
    if node.test:
        has = operators.has_part
        return Code(lambda frame: has(operand(frame), field), cost)
    return Code(_field(operand, field), cost + 1)


def _field(operand: Closure, field: str) -> Closure:
    part = operators.part

    def run(frame: Frame) -> Any:
        value = operand(frame)
        if type(value) is dict:
            try:
                return value[field]
            except KeyError:
                raise EvaluationError(f"no such key: {field}") from None
        return part(value, field)

    return run


def _list(maker: Maker, node: ListLiteral, scope: FrameScope) -> Code:
    codes = maker.codes(node.parts, scope)
    runs = tuple(code.run for code in codes)
    cost = 10 + sum(code.cost for code in codes)
    if all(isinstance(part, Const) for part in node.parts):
        values = [part.value for part in node.parts if isinstance(part, Const)]
        return Code(lambda frame: values, cost)
    cost += len(runs) // 16
    if not node.optional:
        return Code(lambda frame: [run(frame) for run in runs], cost)
    optional = node.optional

    def build(frame: Frame) -> list[Any]:
        elements = []
        for at, run in enumerate(runs):
            value = run(frame)
            if at not in optional:
                elements.append(value)
            elif type(value) is not Optional:
                raise no_overload()
            elif value.has_value:
                elements.append(value.value)
        return elements

    return Code(build, cost)


def _map(maker: Maker, node: MapLiteral, scope: FrameScope) -> Code:
    entries = [_entry(maker, entry, scope) for entry in node.entries]
    parts = tuple((key.run, value.run, optional) for key, value, optional in entries)

    def build(frame: Frame) -> dict[Any, Any]:
        mapping: dict[Any, Any] = {}
        for key, value, optional in parts:
            name, held = key_of(key(frame)), value(frame)
            if optional:
                if type(held) is not Optional:
                    raise no_overload()
                if not held.has_value:
                    continue
                held = held.value
            if name in mapping:
                raise EvaluationError(f"Failed with repeated key {operators.written(name)}")
            mapping[name] = held
        return mapping

    cost = sum(key.cost + value.cost for key, value, _ in entries)
    return Code(build, 30 + len(parts) // 4 + cost)


def _entry(maker: Maker, entry: MapEntry, scope: FrameScope) -> tuple[Code, Code, bool]:
    return maker.code(entry.key, scope), maker.code(entry.value, scope), entry.optional


_WRAPPERS: dict[str, tuple[Any, str]] = {
    "BoolValue": (False, "bool"),
    "BytesValue": (b"", "bytes"),
    "DoubleValue": (0.0, "double"),
    "FloatValue": (0.0, "double"),
    "Int32Value": (0, "int"),
    "Int64Value": (0, "int"),
    "StringValue": ("", "string"),
    "UInt32Value": (Uint(0), "uint"),
    "UInt64Value": (Uint(0), "uint"),
}
"""Protobuf's wrappers: a message of one is its value. Value without the field, and the conversion of the field."""


def _message(maker: Maker, node: Message, scope: FrameScope) -> Code:
    """Compile a wrapper; any other message fails when it is evaluated, since nothing in Kubernetes takes one."""
    wrapper = _WRAPPERS.get(node.name.removeprefix("google.protobuf."))
    if wrapper is not None and len(node.fields) < 2:
        default, kind = wrapper
        if not node.fields:
            return Code(lambda frame: default, 40)
        run, cost = function(kind, (maker.code(node.fields[0][1], scope),))
        return Code(run, cost + 40)
    fault = EvaluationError(f"unsupported message: {node.name}")

    def fail(frame: Frame) -> Any:
        raise fault.with_traceback(None)

    return Code(fail, 40)


def _call(maker: Maker, node: Call, scope: FrameScope) -> Code:
    if (special := OPERATORS.get(node.name)) is not None:
        return special(maker, node, scope)
    code = function(node.name, maker.codes(node.parts, scope))
    if node.name in CONSTANT and all(isinstance(part, Const) for part in node.parts):
        return _constant(code)
    return code


CONSTANT = frozenset(("quantity", "semver", "ip", "cidr", "url", "duration", "timestamp"))
"""Functions whose values are made once if their arguments are literals; they cost the same."""


def function(name: str, codes: tuple[Code, ...]) -> Code:
    """Call a function of the table."""
    overloads = TABLE.get(name, {})
    runs = tuple(code.run for code in codes)
    fixed = min((each.fixed for types, each in overloads.items() if len(types) == len(runs)), default=1)
    cost = fixed + sum(code.cost for code in codes)
    if len(runs) == 1:
        return Code(_of_one(name, overloads, runs[0], fixed), cost)
    if len(runs) == 2:
        return Code(_of_two(name, overloads, runs[0], runs[1], fixed), cost)

    def run(frame: Frame) -> Any:
        values = [run(frame) for run in runs]
        overload = find(overloads, tuple(map(type, values)))
        return _applied(name, overload, fixed, frame, *values)

    return Code(run, cost)


def _constant(code: Code) -> Code:
    """Return the code of a call that is made once. What fails, or is dear, remains as it is."""
    budget = 100
    frame: Frame = [budget]
    try:
        value = code.run(frame)
    except (EvaluationError, Spent):
        return code
    return Code(lambda frame: value, code.cost + budget - frame[0])


Overloads = dict[tuple[type, ...], Overload]


def _of_one(name: str, overloads: Overloads, operand: Closure, fixed: int) -> Closure:
    def run(frame: Frame) -> Any:
        value = operand(frame)
        overload = overloads.get((type(value),)) or find(overloads, (type(value),))
        return _applied(name, overload, fixed, frame, value)

    return run


def _of_two(name: str, overloads: Overloads, left: Closure, right: Closure, fixed: int) -> Closure:
    def run(frame: Frame) -> Any:
        one, other = left(frame), right(frame)
        types = (type(one), type(other))
        overload = overloads.get(types) or find(overloads, types)
        return _applied(name, overload, fixed, frame, one, other)

    return run


def _applied(name: str, found: Overload | None, fixed: int, frame: Frame, *values: Any) -> Any:
    if found is None:
        raise no_overload(name)
    body, price, own, metered = found
    if price is not None:
        own = price(*values)
    if own > fixed:
        charge(frame, own - fixed)
    try:
        return body(frame, *values) if metered else body(*values)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


OPERATORS: dict[str, Callable[[Maker, Any, FrameScope], Code]] = {}
"""Calls that are no functions of the table, by their names in the tree; filled by `forms`."""
_MAKERS: dict[type, Callable[[Maker, Any, FrameScope], Code]] = {
    Const: _const,
    Ident: _ident,
    Select: _select,
    Call: _call,
    ListLiteral: _list,
    MapLiteral: _map,
    Message: _message,
}


def register_loop(make: Callable[[Maker, Loop, FrameScope], Code]) -> None:
    """Set the compiler of loops; its module imports this one."""
    _MAKERS[Loop] = make
