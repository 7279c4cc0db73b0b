"""Comprehensions. All macros are loops in the tree; those with a known form run as what they were written as."""

from collections.abc import Iterator
from typing import Any

from protocols.cel.evaluation.closures import Closure, Code, FrameScope, Maker, register_loop
from protocols.cel.evaluation.tree import Call, Const, Ident, ListLiteral, Loop, MapLiteral, Node
from protocols.cel.functions.operators import MAPS
from protocols.cel.functions.values import LISTS, Frame, Spent, charge, key_of, no_overload, value_of
from protocols.cel.text.source import EvaluationError


def _loop(maker: Maker, node: Loop, scope: FrameScope) -> Code:
    if isinstance(node.over, ListLiteral) and not node.over.parts:
        return _binding(maker, node, scope)
    over, start = maker.code(node.over, scope), maker.code(node.start, scope)
    inner, slots = scope.with_variables(node.accumulator, *node.variables)
    result = maker.code(node.result, inner)
    specialized = _all_or_exists(maker, node, inner, slots) or _collection(maker, node, inner, slots)
    turns = specialized or _general(maker, node, inner, slots)
    run_over, run_start, run_result, accumulator = over.run, start.run, result.run, slots[0]

    def run(frame: Frame) -> Any:
        items = _items(run_over(frame), len(slots) - 1)
        frame[accumulator] = run_start(frame)
        turns(frame, items)
        return run_result(frame)

    return Code(run, over.cost + start.cost + result.cost)


def _binding(maker: Maker, node: Loop, scope: FrameScope) -> Code:
    """`cel.bind`: a loop over nothing."""
    start = maker.code(node.start, scope)
    inner, slot = scope.with_bound(node.accumulator)
    result = maker.code(node.result, inner)
    run_start, run_result = start.run, result.run

    def run(frame: Frame) -> Any:
        try:
            frame[slot] = run_start(frame)
        except EvaluationError as error:
            frame[slot] = error
        return run_result(frame)

    return Code(run, 10 + start.cost + result.cost)


def _items(value: Any, variables: int) -> Any:
    kind = type(value)
    if variables == 1:
        if kind in LISTS:
            return iter(value)
        if kind in MAPS:
            return map(value_of, value)
    elif kind in LISTS:
        return enumerate(value)
    elif kind in MAPS:
        return _pairs(value)
    raise no_overload("comprehension")


def _pairs(value: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    for key, element in value.items():
        yield value_of(key), element


Turns = Any
"""Runs all turns: takes the frame and the items."""


def _assign(frame: Frame, slots: list[int], item: Any) -> None:
    if len(slots) == 2:
        frame[slots[1]] = item
    else:
        frame[slots[1]], frame[slots[2]] = item


def _general(maker: Maker, node: Loop, scope: FrameScope, slots: list[int]) -> Turns:
    condition, step = maker.code(node.condition, scope), maker.code(node.step, scope)
    accumulator, check, advance = slots[0], condition.run, step.run
    always = isinstance(node.condition, Const) and node.condition.value is True
    cost = condition.cost + step.cost

    def turns(frame: Frame, items: Any) -> None:
        for item in items:
            frame[0] -= cost
            if frame[0] < 0:
                raise Spent
            _assign(frame, slots, item)
            if not always and check(frame) is not True:
                break
            frame[accumulator] = advance(frame)

    return turns


def _all_or_exists(maker: Maker, node: Loop, scope: FrameScope, slots: list[int]) -> Turns | None:
    """`all` and `exists`: one item that decides outweighs errors of others."""
    step, condition = node.step, node.condition
    if not isinstance(step, Call) or step.name not in ("_&&_", "_||_") or len(step.parts) != 2:
        return None
    if not _is_accumulator(step.parts[0], node) or not _called(condition, "@not_strictly_false"):
        return None
    deciding = step.name == "_||_"
    predicate = maker.code(step.parts[1], scope)
    return _quantified(predicate, deciding, slots)


def _quantified(predicate: Code, deciding: bool, slots: list[int]) -> Turns:
    check, cost, accumulator = predicate.run, 3 + predicate.cost, slots[0]
    single, one = len(slots) == 2, slots[1]

    def turns(frame: Frame, items: Any) -> None:
        fault: EvaluationError | None = None
        for item in items:
            frame[0] -= cost
            if frame[0] < 0:
                raise Spent
            if single:
                frame[one] = item
            else:
                _assign(frame, slots, item)
            try:
                verdict = check(frame)
            except EvaluationError as error:
                fault = fault or error
                continue
            if verdict is deciding:
                frame[accumulator] = deciding
                return
            if type(verdict) is not bool:
                fault = fault or no_overload()
        if fault is not None:
            raise fault
        frame[accumulator] = not deciding

    return turns


def _called(node: Node, name: str) -> bool:
    return isinstance(node, Call) and node.name == name


def _is_accumulator(node: Node, loop: Loop) -> bool:
    return isinstance(node, Ident) and node.name == loop.accumulator


def _collection(maker: Maker, node: Loop, scope: FrameScope, slots: list[int]) -> Turns | None:
    """`map`, `filter`, `transformList` and `transformMap`: the accumulator is changed in place."""
    filtered: Node | None = None
    step = node.step
    if not isinstance(node.condition, Const) or node.condition.value is not True:
        return None
    if isinstance(step, Call) and step.name == "_?_:_" and _is_accumulator(step.parts[2], node):
        filtered, step = step.parts[0], step.parts[1]
    if not isinstance(step, Call) or not step.parts or not _is_accumulator(step.parts[0], node):
        return None
    last = step.parts[-1]
    check = maker.code(filtered, scope) if filtered is not None else None
    fresh_list = isinstance(node.start, ListLiteral) and not node.start.parts
    if step.name == "_+_" and fresh_list and isinstance(last, ListLiteral) and len(last.parts) == 1:
        if last.optional:
            return None
        return _appending(maker.code(last.parts[0], scope), check, slots)
    if step.name == "cel.@mapInsert" and isinstance(node.start, MapLiteral) and not node.start.entries:
        return _inserting(maker.codes(step.parts[1:], scope), check, slots)
    return None


def _holds(check: Closure, frame: Frame) -> bool:
    verdict = check(frame)
    if type(verdict) is not bool:
        raise no_overload("_?_:_")
    return verdict


def _appending(element: Code, check: Code | None, slots: list[int]) -> Turns:
    run, cost = element.run, 11 + element.cost
    decide, turn = (check.run, 1 + check.cost) if check is not None else (None, 1)

    def turns(frame: Frame, items: Any) -> None:
        elements: list[Any] = []
        for item in items:
            charge(frame, turn)
            _assign(frame, slots, item)
            if decide is None or _holds(decide, frame):
                charge(frame, cost)
                elements.append(run(frame))
        frame[slots[0]] = elements

    return turns


def _inserting(codes: tuple[Code, ...], check: Code | None, slots: list[int]) -> Turns:
    runs, cost = [code.run for code in codes], 1 + sum(code.cost for code in codes)
    decide, turn = (check.run, 1 + check.cost) if check is not None else (None, 1)

    def turns(frame: Frame, items: Any) -> None:
        mapping: dict[Any, Any] = {}
        for item in items:
            charge(frame, turn)
            _assign(frame, slots, item)
            if decide is None or _holds(decide, frame):
                charge(frame, cost)
                _insert(frame, mapping, [run(frame) for run in runs])
        frame[slots[0]] = mapping

    return turns


def _insert(frame: Frame, made: dict[Any, Any], values: list[Any]) -> None:
    """Insert a key and a value, or all entries of a map."""
    if len(values) == 2:
        entries: Any = ((key_of(values[0]), values[1]),)
    elif type(values[0]) in MAPS:
        charge(frame, len(values[0]))
        entries = values[0].items()
    else:
        raise no_overload("cel.@mapInsert")
    for key, value in entries:
        if key in made:
            raise EvaluationError(f"insert failed: key {key} already exists")
        made[key] = value


register_loop(_loop)
