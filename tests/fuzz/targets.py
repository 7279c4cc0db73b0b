"""How an expression of each kind is compiled and evaluated, as the API server and the scheduler do."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from actors.apiserver.custom.rule.cel_type import cel_type_of
from actors.apiserver.custom.schema.node import Node
from protocols.cel import policies, programs
from protocols.cel.libraries import authorizing
from protocols.cel.policies import Scope
from protocols.cel.rules import evaluate
from protocols.cel.rules.check import Checker
from protocols.cel.rules.values import converted
from protocols.cel.text.mutations import as_maps
from protocols.cel.text.source import CelError, EvaluationError
from protocols.dra.decode import device_of
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
SCOPE = Scope(params=True)


def _selector(text: str) -> list[Callable[[], Any]]:
    program = programs.compile_program(text)
    again = programs.Program.from_checked(text, program.cost, program.serialized)
    return [*(lambda each=each: again.matches(DRIVER, each) for each in DEVICES)]


def _policy(text: str) -> list[Callable[[], Any]]:
    policies.check(text, SCOPE)
    policies.program.cache_clear()
    program = policies.program(text, SCOPE)
    return [*(lambda each=each: _decided(program, each) for each in OBJECTS)]


def _decided(program: policies.Program, given: Mapping[str, Any]) -> Any:
    checked = {
        authorizing.AUTHORIZER: authorizing.START,
        authorizing.REQUEST_RESOURCE: authorizing.request_resource({}),
    }
    with authorizing.deciding(lambda asked: (len(asked) % 2 == 0, "reason")):
        return program.value({**given, **checked, "request": REQUEST, "params": {"a": [1]}})


def _mutation(text: str) -> list[Callable[[], Any]]:
    return _policy(as_maps(text))


@functools.cache
def _checker() -> Checker:
    assert TYPE is not None
    return Checker(TYPE, 1)


def _rule(text: str) -> list[Callable[[], Any]]:
    assert TYPE is not None
    _checker().check(text, False)
    evaluate.program.cache_clear()
    program = evaluate.program(text, False)
    values = [converted(each, TYPE) for each in VALUES]
    return [*(lambda each=each: program.value(each, values[0], True) for each in values)]


TARGETS: Mapping[str, Callable[[str], list[Callable[[], Any]]]] = {
    "selector": _selector,
    "policy": _policy,
    "mutation": _mutation,
    "rule": _rule,
}


def tried(kind: str, text: str, phase: Callable[[str], None]) -> tuple[str, int]:
    """Compile and evaluate; return the fault, empty if there is none, and the number of evaluations.

    `phase` is told which part begins.
    """
    phase("check")
    try:
        runs = TARGETS[kind](text)
    except CelError as error:
        return (f"a check ends with {error}" if isinstance(error, EvaluationError) else ""), 0
    except Exception as error:
        return f"a check ends with {type(error).__name__}: {error}", 0
    phase("evaluate")
    for run in runs:
        try:
            run()
        except EvaluationError as error:
            if str(error).startswith("internal error"):
                return str(error), 1
        except Exception as error:
            return f"an evaluation ends with {type(error).__name__}: {error}", 1
    return "", len(runs)
