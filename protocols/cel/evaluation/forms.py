"""Operators and other calls that are no plain functions: those that absorb errors, skip operands or take any types."""

from collections.abc import Callable
from typing import Any

from protocols.cel.evaluation.closures import OPERATORS, Closure, Code, FrameScope, Maker
from protocols.cel.evaluation.tree import Call, Const, Node
from protocols.cel.functions import operators
from protocols.cel.functions.values import Frame, Optional, charge, no_overload
from protocols.cel.text.source import EvaluationError


def _flattened(node: Call) -> list[Node]:
    operands: list[Node] = []
    waiting: list[Node] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Call) and part.name == node.name:
            waiting += reversed(part.parts)
        else:
            operands.append(part)
    return operands


def _logical(maker: Maker, node: Call, scope: FrameScope) -> Code:
    """`&&` and `||`: the value that decides outweighs errors of the others, whichever comes first."""
    deciding = node.name == "_||_"
    first, *others = maker.codes(tuple(_flattened(node)), scope)
    rest = tuple(others)
    name = node.name

    neutral, parts = not deciding, ((first.run, 0), *rest)

    def run(frame: Frame) -> Any:
        at = 0
        try:
            for closure, cost in parts:
                at += 1
                frame[0] -= cost
                value = closure(frame)
                if value is deciding:
                    return deciding
                if value is not neutral:
                    break
            else:
                return neutral
        except EvaluationError as error:
            return _unless_decided(frame, parts[at:], deciding, error)
        return _unless_decided(frame, parts[at:], deciding, no_overload(name))

    return Code(run, first.cost)


def _unless_decided(
    frame: Frame, rest: tuple[tuple[Closure, int], ...], deciding: bool, fault: EvaluationError
) -> bool:
    """Return the deciding value if one of the rest has it. Raises `fault`."""
    for closure, cost in rest:
        frame[0] -= cost
        try:
            if closure(frame) is deciding:
                return bool(deciding)
        except EvaluationError:
            continue
    raise fault


def _ternary(maker: Maker, node: Call, scope: FrameScope) -> Code:
    condition, yes, no = maker.codes(node.parts, scope)
    decide, one, other = condition.run, yes.run, no.run
    cost_of_one, cost_of_other = yes.cost, no.cost

    def run(frame: Frame) -> Any:
        decision = decide(frame)
        if decision is True:
            frame[0] -= cost_of_one
            return one(frame)
        if decision is False:
            frame[0] -= cost_of_other
            return other(frame)
        raise no_overload("_?_:_")

    return Code(run, condition.cost)


def _not(maker: Maker, node: Call, scope: FrameScope) -> Code:
    operand, cost = maker.code(node.parts[0], scope)

    def run(frame: Frame) -> bool:
        value = operand(frame)
        if type(value) is not bool:
            raise no_overload("!_")
        return not value

    return Code(run, cost + 1)


_SHORT = 10
"""Characters up to which comparing a text costs a unit."""


def _equality(maker: Maker, node: Call, scope: FrameScope) -> Code:
    (left, first), (right, second) = maker.codes(node.parts, scope)
    wanted, last, cost = node.name == "_==_", node.parts[1], first + second + 1
    if isinstance(last, Const) and type(last.value) is str and len(last.value) <= _SHORT:
        text = last.value
        return Code(lambda frame: (left(frame) == text) is wanted, cost)
    equal = operators.equal

    def run(frame: Frame) -> Any:
        one, other = left(frame), right(frame)
        if type(one) is int and type(other) is int:
            return (one == other) is wanted
        return equal(frame, one, other) is wanted

    return Code(run, cost)


def _order(maker: Maker, node: Call, scope: FrameScope) -> Code:
    (left, first), (right, second) = maker.codes(node.parts, scope)
    name, compare, comparable = node.name, operators.ORDERS[node.name], operators.comparable

    def run(frame: Frame) -> bool:
        one, other = left(frame), right(frame)
        if type(one) is not int or type(other) is not int:
            if not comparable(one, other):
                raise no_overload(name)
            if type(one) is str or type(one) is bytes:
                charge(frame, min(len(one), len(other)) // 10)
            one, other = operators.alike(one, other)
        return compare(one, other)

    return Code(run, first + second + 1)


def _arithmetic(maker: Maker, node: Call, scope: FrameScope) -> Code:
    (left, first), (right, second) = maker.codes(node.parts, scope)
    name, work, price = node.name, operators.ARITHMETIC[node.name], operators.sum_price
    copies = name == "_+_"

    def run(frame: Frame) -> Any:
        one, other = left(frame), right(frame)
        operation = work.get((type(one), type(other)))
        if operation is None:
            raise no_overload(name)
        if copies and (more := price(one, other)):
            charge(frame, more)
        return operation(one, other)

    return Code(run, first + second + 1)


def _binary(work: Callable[[Any, Any], Any]) -> Callable[[Maker, Call, FrameScope], Code]:
    def make(maker: Maker, node: Call, scope: FrameScope) -> Code:
        (left, first), (right, second) = maker.codes(node.parts, scope)
        return Code(lambda frame: work(left(frame), right(frame)), first + second + 1)

    return make


def _in(maker: Maker, node: Call, scope: FrameScope) -> Code:
    (left, first), (right, second) = maker.codes(node.parts, scope)
    contains = operators.contains
    return Code(lambda frame: contains(frame, left(frame), right(frame)), first + second)


def _unary(work: Callable[[Any], Any]) -> Callable[[Maker, Call, FrameScope], Code]:
    def make(maker: Maker, node: Call, scope: FrameScope) -> Code:
        operand, cost = maker.code(node.parts[0], scope)
        return Code(lambda frame: work(operand(frame)), cost + 1)

    return make


def _or_value(maker: Maker, node: Call, scope: FrameScope) -> Code:
    """`or` and `orValue`: the default is evaluated only if it is needed."""
    operand, default = maker.codes(node.parts, scope)
    whole, name = node.name == "or", node.name
    begin, other, more = operand.run, default.run, default.cost

    def run(frame: Frame) -> Any:
        value = begin(frame)
        if type(value) is not Optional:
            raise no_overload(name)
        if value.has_value:
            return value if whole else value.value
        frame[0] -= more
        fallback = other(frame)
        if whole and type(fallback) is not Optional:
            raise no_overload(name)
        return fallback

    return Code(run, operand.cost + 1)


def _lazy_not_false(maker: Maker, node: Call, scope: FrameScope) -> Code:
    """`@not_strictly_false`: an error counts as true."""
    operand, cost = maker.code(node.parts[0], scope)

    def run(frame: Frame) -> bool:
        try:
            return operand(frame) is not False
        except EvaluationError:
            return True

    return Code(run, cost + 1)


OPERATORS |= {
    "_&&_": _logical,
    "_||_": _logical,
    "_?_:_": _ternary,
    "!_": _not,
    "-_": _unary(operators.negative),
    "_==_": _equality,
    "_!=_": _equality,
    **dict.fromkeys(operators.ORDERS, _order),
    **dict.fromkeys(operators.ARITHMETIC, _arithmetic),
    "@in": _in,
    "_[_]": _binary(operators.part),
    "_[?_]": _binary(operators.optional_part),
    "_?._": _binary(operators.optional_part),
    "or": _or_value,
    "orValue": _or_value,
    "@not_strictly_false": _lazy_not_false,
}
