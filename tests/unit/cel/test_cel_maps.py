"""`transformMap` and `transformMapEntry`: the meaning that cel-go gives them, bounded as other macros."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.cel import policies
from protocols.cel.text.source import CompileError, EvaluationError
from protocols.kinds.custom.rule.evaluate import rule_causes
from protocols.kinds.custom.schema.node import Node
from tests.unit.cel.test_cel import ERROR, REFUSED, outcome

HOLDS = r"""
{}.transformMap(k, v, v) == {}
{"a": 1, "b": 2}.transformMap(k, v, v * 2) == {"a": 2, "b": 4}
{"a": 1, "b": 2}.transformMap(k, v, k == "b", v * 2) == {"b": 4}
["x", "y"].transformMap(i, v, v + string(i)) == {0: "x0", 1: "y1"}
[1, 2, 3].transformMap(i, v, i > 0 && v < 3, v) == {1: 2}
{"a": "b"}.transformMapEntry(k, v, {v: k}) == {"b": "a"}
["x", "y"].transformMapEntry(i, v, v == "y", {v: i}) == {"y": 1}
["x", "y"].transformMapEntry(i, v, i == 0 ? {v: i} : {"p": 1, "q": 2}) == {"x": 0, "p": 1, "q": 2}
{"a": {"b": 1}}.transformMap(k, v, v.transformMap(l, w, w + 1)) == {"a": {"b": 2}}
{"a": 1}.transformMap(k, v, [v].transformMap(i, w, w)) == {"a": {0: 1}}
{"a": 1}.transformMap(k, v, v).transformMapEntry(k, v, {v: k}) == {1: "a"}
{"a": 1}.transformMap(k, v, {"b": k}).a.b == "a"
{"a": 1}.transformMap(k, v, v).exists(k, v, k == "a" && v == 1)
"a" in {"a": null}.transformMap(k, v, v) && type({"a": null}.transformMap(k, v, v).a) == null_type
{true: 1.5}.transformMap(k, v, b"x")[true] == b"x"
{"a": "90s"}.transformMap(k, v, duration(v)).a == duration("90s")
{"a": timestamp(0)}.transformMap(k, v, v).a == timestamp("1970-01-01T00:00:00Z")
{"a": quantity("1k")}.transformMap(k, v, v).a.isGreaterThan(quantity("999"))
{"a": 1}.transformMap(k, v, 1 / 0) == {} || true
{"transformMap(": 1}.transformMap(k, v, ")") == {"transformMap(": ")"}
[dyn(1), dyn(true)].transformMapEntry(i, v, {v: i}) == {1: 0, dyn(true): 1}
{"a": 1u}.transformMap(k, v, v) == {"a": 1u}
{"a": 1}.transformMap(k, v, optional.of(v)).a == optional.of(1)
[optional.of(1)].transformMap(i, v, v.value()) == {0: 1}
size(device.attributes["x"].transformMap(k, v, v)) == 0
device.attributes.transformMap(k, v, size(v)) == {}
"""


@pytest.mark.parametrize("expression", HOLDS.strip().splitlines())
def test_map_made_by_a_macro_holds(expression: str) -> None:
    assert outcome(expression) == "true"


def test_comments_and_lines_stay_where_they_are() -> None:
    assert outcome('{"a": 1}.transformMap(k, v, // every\n v // value\n) == {"a": 1}') == "true"


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ('["x", "x"].transformMapEntry(i, v, {v: i}) == {}', f"{ERROR}insert failed: key x already exists"),
        ('{"a": 1}.transformMap(k, v, v).b == 1', f"{ERROR}no such key: b"),
        ('{"a": 1}.transformMap(k, v, v / 0) == {}', f"{ERROR}division by zero"),
        ('{"a": 1}.transformMap(k.x, v, v) == {}', "first variable name must be a simple identifier"),
        ('{"a": 1}.transformMap(k, v) == {}', "undeclared reference to 'transformMap'"),
        ('{"a": 1}.transformMap(k, v, nope) == {}', "<input>:1:29: undeclared reference to 'nope'"),
        ('{"a": 1}.transformMap(k, v, v) == [1]', "found no matching overload for '_==_'"),
    ],
)
def test_map_that_cannot_be_made_is_an_error(expression: str, fault: str) -> None:
    found = outcome(expression)
    assert found.startswith((ERROR, REFUSED))
    assert fault in found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab"\\é', max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=2),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.text("abc", min_size=1, max_size=2), VALUES, max_size=4)


def policy(expression: str, value: Any) -> Any:
    policies.check(expression, policies.PolicyScope())
    return policies.program(expression, policies.PolicyScope()).value({"object": value})


@given(OBJECTS)
def test_maps_of_objects_are_what_python_makes_of_them(value: dict[str, Any]) -> None:
    assert policy("object.transformMap(k, v, v)", value) == value
    expected = {key: {"was": each, "key": key} for key, each in value.items() if key != "a"}
    assert policy("object.transformMap(k, v, k != 'a', {'was': dyn(v), 'key': k})", value) == expected
    by_text = {json.dumps(each): key for key, each in value.items() if isinstance(each, str)}
    texts = {key: json.dumps(each) for key, each in value.items() if isinstance(each, str)}
    if len(by_text) == len(texts):
        assert policy("object.transformMapEntry(k, v, {v: k})", texts) == by_text
    else:
        with pytest.raises(EvaluationError, match="insert failed"):
            policy("object.transformMapEntry(k, v, {v: k})", texts)


def test_policy_without_a_literal_has_the_same_maps() -> None:
    variables = (("byName", "object.list.transformMapEntry(i, v, {v.name: v})"),)
    scope = policies.PolicyScope(variables=variables)
    policies.check("variables.byName.b.port == 2", scope)
    program = policies.program("variables.byName.b.port == 2", scope)
    listed = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    assert program.value({"object": {"list": listed}}) is True


PORT = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "maxLength": 15},
        "since": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"},
    },
}


def test_rule_of_a_custom_resource_indexes_a_list_of_objects() -> None:
    rule = (
        "self.ports.transformMapEntry(i, p, {p.name: p}).a.since < timestamp('2022-01-01T00:00:00Z')"
        " && self.ports.transformMap(i, p, p.wait)[0] == duration('1m')"
    )
    ports = {"type": "array", "maxItems": 4, "items": PORT}
    spec = {"type": "object", "properties": {"ports": ports}, "x-kubernetes-validations": [{"rule": rule}]}
    node = Node({"type": "object", "properties": {"spec": spec}})

    def causes(since: str) -> list[str]:
        listed = [{"name": "a", "since": since, "wait": "60s"}]
        whole = {"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}, "spec": {"ports": listed}}
        return [cause.message for cause in rule_causes(whole, node)]

    assert causes("2021-01-01T00:00:00.000001Z") == []
    assert causes("2023-01-01T00:00:00Z") == [f"Invalid value: failed rule: {rule}"]


def test_maps_that_grow_or_nest_are_too_dear() -> None:
    doubling = '{"a": "xxxxxxxxxx"}' + ".transformMap(k, v, v + v)" * 20 + " == {}"
    assert "too complex" in outcome(doubling)
    loops = "lists.range(1000)"
    assert "too complex" in outcome(f"{loops}.transformMap(i, v, {loops}.transformMap(j, w, {loops})) == {{}}")
    began = time.process_time()
    assert outcome("lists.range(300).transformMap(i, v, v)[299] == 299") == "true"
    assert time.process_time() - began < 1


def test_nested_macros_past_the_parsers_depth_are_rejected_at_once() -> None:
    deep = "v"
    for _ in range(33):
        deep = f"[1].transformMap(i, v, {deep})"
    with pytest.raises(CompileError, match="too deeply nested"):
        policies.check(f"size({deep}) == 1", policies.PolicyScope())
