"""How an expression of each kind is compiled and evaluated, as the API server and the scheduler do."""

import functools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from protocols.cel import policies, programs
from protocols.cel.costs import estimate
from protocols.cel.costs.sizes import Size
from protocols.cel.evaluation import devices
from protocols.cel.evaluation.closures import Special
from protocols.cel.evaluation.running import CostBudget, Expression
from protocols.cel.libraries import authorizing
from protocols.cel.policies import PolicyScope
from protocols.cel.rules import check as rules
from protocols.cel.rules.check import Checker
from protocols.cel.rules.values import converted, size_of
from protocols.cel.text.mutations import as_maps
from protocols.cel.text.source import CelError, EvaluationError
from protocols.dra.decode import device_of
from protocols.kinds.custom.rule.cel_type import cel_type_of
from protocols.kinds.custom.schema.node import Node
from tests.fuzz.variants import CONSTANTS, Variants
from tests.support.dra_objects import device

DRIVER = "dra.example.com"
DEVICES = (
    device_of(device("x", {"name": "a", "n": 1, "v": "v:1.2.3", "b/name": True}, {"memory": "1Gi"}), DRIVER),
    device_of(device("y", {}, {}), DRIVER),
)
OBJECTS: tuple[Mapping[str, Any], ...] = (
    {"object": {"a": 1, "data": [1, "a"], "spec": {"items": [{"a": 1}, None, 2.5], "replicas": 3},
                "metadata": {"name": "n", "finalizers": ["f"] * 300}}, "oldObject": {"a": {"a": "b"}}},
    {"object": None, "oldObject": None},
)  # fmt: skip
REQUEST = {"userInfo": {"username": "u", "groups": ["g"]}, "operation": "CREATE", "options": None}
SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 300},
        "number": {"type": "integer"},
        "real": {"type": "number"},
        "on": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 300},
        "texts": {"type": "array", "items": {"type": "string", "maxLength": 30}, "maxItems": 30},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 30},
        "any": {"x-kubernetes-int-or-string": True},
        "when": {"type": "string", "format": "date-time"},
        "span": {"type": "string", "format": "duration"},
    },
}
VALUES: tuple[dict[str, Any], ...] = (
    {"text": "ab" * 150, "number": 7, "real": 1.5, "on": True, "list": list(range(300)), "texts": ["a", "b"],
     "map": {"a": 1}, "any": "x", "when": "2020-01-01T00:00:00Z", "span": "1h"},
    {"number": -1, "any": 3, "list": []},
)  # fmt: skip
NODE = Node(SCHEMA)
TYPE = cel_type_of(NODE, False)
assert TYPE is not None
SCOPE = PolicyScope(params=True)


class Accepted(NamedTuple):
    """A text that passed its check: its tree, and evaluations of it."""

    serialized: bytes
    runs: list[Callable[[], Any]]


def _selector(text: str) -> Accepted:
    program = programs.compile_program(text)
    again = programs.SelectorProgram(program.cost, program.serialized)
    return Accepted(program.serialized, [*(lambda each=each: again.matches(DRIVER, each) for each in DEVICES)])


def _policy(text: str) -> Accepted:
    policies.check(text, SCOPE)
    policies.program.cache_clear()
    program = policies.program(text, SCOPE)
    return Accepted(program.serialized, [*(lambda each=each: program.value(_given(each)) for each in OBJECTS)])


def _given(read: Mapping[str, Any]) -> dict[str, Any]:
    checked = {
        authorizing.AUTHORIZER: authorizing.START,
        authorizing.REQUEST_RESOURCE: authorizing.request_resource({}),
    }
    return {**read, **checked, "request": REQUEST, "params": {"a": [1]}}


def _mutation(text: str) -> Accepted:
    return _policy(as_maps(text))


@functools.cache
def _checker() -> Checker:
    assert TYPE is not None
    return Checker(TYPE, 1)


def _rule(text: str) -> Accepted:
    assert TYPE is not None
    _checker().check(text, False)
    rules.program.cache_clear()
    program = rules.program(text, False)
    values = [converted(value, TYPE) for value in VALUES]
    return Accepted(program.serialized, [*(lambda old=old: program.value(old, values[0], True) for old in values)])


TARGETS: Mapping[str, Callable[[str], Accepted]] = {
    "selector": _selector,
    "policy": _policy,
    "mutation": _mutation,
    "rule": _rule,
}


class Tried(NamedTuple):
    """`fault` is empty if there is none, `serialized` if the check did not pass."""

    fault: str = ""
    evaluations: int = 0
    serialized: bytes = b""


def tried(kind: str, text: str, phase: Callable[[str], None]) -> Tried:
    """Compile and evaluate a text. `phase` is told which part begins."""
    phase("check")
    try:
        accepted = TARGETS[kind](text)
    except CelError as error:
        return Tried(f"a check ends with {error}" if isinstance(error, EvaluationError) else "")
    except Exception as error:
        return Tried(f"a check ends with {type(error).__name__}: {error}")
    phase("evaluate")
    with authorizing.deciding(_decide):
        for run in accepted.runs:
            if fault := _fault(run):
                return Tried(fault, 1)
    return Tried("", len(accepted.runs), accepted.serialized)


def _decide(asked: Mapping[str, str]) -> tuple[bool, str]:
    return len(asked) % 2 == 0, "reason"


def _fault(run: Callable[[], Any]) -> str:
    try:
        run()
    except EvaluationError as error:
        return str(error) if str(error).startswith("internal error") else ""
    except Exception as error:
        return f"an evaluation ends with {type(error).__name__}: {error}"
    return ""


class Kind(NamedTuple):
    """What variants of one kind are evaluated with."""

    variables: tuple[str, ...]
    special: Special | None
    limit: int
    """Cost of the worst case."""
    sizes: Mapping[str, Size]
    inputs: Sequence[tuple[Any, ...]]


INPUTS = 24
"""Random inputs of each kind, beside those that are written here."""
_chance = random.Random(1)
_NAMES = ("a", "b", "n", "v", "name", "data", "spec", "items", "metadata", "finalizers", "zz")


def _json(depth: int) -> Any:
    kind = _chance.choice((bool, int, float, str, list, dict, type(None)))
    if kind is list or kind is dict:
        count = _chance.choice((0, 1, 3, 9)) if depth else 0
        parts = [_json(depth - 1) for _ in range(count)]
        return parts if kind is list else dict(zip(_chance.sample(_NAMES, count), parts, strict=True))
    return _chance.choice(CONSTANTS[kind])


def _device() -> tuple[Any, ...]:
    values = ("", "a", "dra.example.com", True, False, 0, 1, -(1 << 63), (1 << 63) - 1, "v:0.0.1", "v:1.2.3-a.1+b")
    attributes = {name: _chance.choice(values) for name in _chance.sample((*_NAMES, "x/a"), 3)}
    capacity = {"memory": _chance.choice(("0", "1Gi", "1n", "9E", "-5"))}
    return DRIVER, device_of(device("x", attributes, capacity), DRIVER)


def _values() -> dict[str, Any]:
    """Values of the schema."""
    number, text = _chance.choice(CONSTANTS[int]), _chance.choice(CONSTANTS[str])
    return {
        "text": text, "number": number, "real": _chance.choice((0.5, 1e308, -7)), "on": _chance.random() < 0.5,
        "list": [_chance.choice(CONSTANTS[int]) for _ in range(_chance.choice((0, 1, 30)))], "texts": [text, "b"],
        "map": {text: number}, "any": _chance.choice((number, text)), "when": "9999-12-31T23:59:59Z", "span": "-1h",
    }  # fmt: skip


def _policies() -> Kind:
    given = [*OBJECTS, *({"object": _json(4), "oldObject": _json(3)} for _ in range(INPUTS))]
    inputs = [tuple(_given(each).get(name) for name in policies.VARIABLES) for each in given]
    return Kind(policies.VARIABLES, None, policies.COST, {}, inputs)


def _rules() -> Kind:
    assert TYPE is not None
    size = size_of(TYPE)
    values = [converted(each, TYPE) for each in (*VALUES, *(_values() for _ in range(INPUTS)))]
    inputs = [(value, _chance.choice((None, *values)), True) for value in values]
    return Kind(rules.VARIABLES, None, estimate.LIMIT, {rules.THIS: size, rules.OLD: size}, inputs)


_selectors = [*((DRIVER, each) for each in DEVICES), *(_device() for _ in range(INPUTS))]
KINDS: Mapping[str, Kind] = {
    "selector": Kind(devices.VARIABLES, devices.special, estimate.LIMIT, {}, _selectors),
    "policy": _policies(),
    "mutation": _policies(),
    "rule": _rules(),
}
SOME, ALL = 20_000, 1_000_000
"""Budgets of an evaluation. A small one ends it as a large one does, only sooner, whatever the worst case is."""
WHOLE = 50
"""One of so many variants has all of the budget, if its worst case is within the limit."""
SECONDS = 0.25
"""CPU time beyond what the budget stands for, which is a second and a half for all of it."""


def tried_variant(kind: str, variants: Variants, number: int) -> Tried:
    """Compile and evaluate one variant with one input."""
    given = KINDS[kind]
    tree, whole = variants.make(number), number % WHOLE == 0
    try:
        if whole and estimate.cost_of_tree(tree, given.sizes) > given.limit:
            return Tried()
        expression = Expression(tree, given.variables, given.special)
    except CelError:
        return Tried()
    except Exception as error:
        return Tried(f"compilation ends with {type(error).__name__}: {error}")
    units = ALL if whole else SOME
    values = given.inputs[number % len(given.inputs)]
    run = expression.evaluate if kind in ("selector", "rule") else expression.plain
    began = time.process_time()
    with authorizing.deciding(_decide):
        fault = _fault(lambda: run(values, CostBudget(units, units)))
    spent = time.process_time() - began
    if spent > SECONDS + 1.5 * units / ALL:
        fault = fault or f"takes {spent:.2f} s with {units} units"
    return Tried(fault, 1)


def replayed(kind: str, text: str, other: str = "", number: int = 0) -> str:
    """Try a line of the corpus again: a text, or a variant of it. Return the fault."""
    if not other:
        return tried(kind, text, lambda phase: None).fault
    variants = Variants(TARGETS[kind](text).serialized, TARGETS[kind](other).serialized)
    return tried_variant(kind, variants, number).fault
