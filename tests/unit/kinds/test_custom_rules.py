"""Rules in CEL of custom resources: what is refused in a definition, and what is said of an object."""

import copy
import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.cel.functions.conversions import read_timestamp
from protocols.cel.rules.values import CelType, converted
from protocols.kinds.custom.definitions.structural import schema_faults
from protocols.kinds.custom.rule.cel_type import escaped
from protocols.kinds.custom.rule.check import CONTRIBUTED
from protocols.kinds.custom.rule.evaluate import rule_causes
from protocols.kinds.custom.schema.node import Node

RULES = "x-kubernetes-validations"
MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
PORT = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "maxLength": 15}}}
PORT["properties"] |= {"number": {"type": "integer"}}  # type: ignore[operator]  # one literal of two shapes
FIELDS: dict[str, Any] = {
    "replicas": {"type": "integer"},
    "most": {"type": "integer", "default": 3},
    "ratio": {"type": "number"},
    "namespace": {"type": "string", "maxLength": 63},
    "a-b.c/d__e": {"type": "string"},
    "when": {"type": "string", "format": "date-time"},
    "day": {"type": "string", "format": "date"},
    "wait": {"type": "string", "format": "duration"},
    "data": {"type": "string", "format": "byte"},
    "port": {"x-kubernetes-int-or-string": True},
    "maybe": {"type": "string", "nullable": True},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 10}, "maxItems": 5},
    "sizes": {"type": "array", "items": {"type": "integer"}, "maxItems": 5},
    "labels": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 9}, "maxProperties": 5},
    "set": {
        "type": "array",
        "items": {"type": "string", "maxLength": 10},
        "maxItems": 5,
        "x-kubernetes-list-type": "set",
    },
    "ports": {"type": "array", "maxItems": 16, **MAP, "items": PORT},
    "grid": {"type": "array", "maxItems": 3, "items": {"type": "array", "maxItems": 3, "items": {"type": "integer"}}},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
    "object": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"spec": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    },
}


def schema(*rules: str | dict[str, Any], at: str = "") -> dict[str, Any]:
    """With the rules at the spec, or at one of its fields."""
    made: dict[str, Any] = {"type": "object", "properties": copy.deepcopy(FIELDS)}
    place = made
    for step in at.split("/") if at else ():
        place = place["properties"][step] if "properties" in place else place[step]
    place[RULES] = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    return {"type": "object", "properties": {"spec": made}}


def faults(raw: dict[str, Any]) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in schema_faults(raw, "s")]


def told(raw: dict[str, Any], spec: Any, old: Any = None) -> list[str]:
    assert faults(raw) == []
    whole = {"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec}
    more = () if old is None else ({**whole, "spec": old},)
    return [f"{cause.field}: {cause.message}" for cause in rule_causes(whole, Node(raw), *more)]


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ("self.replicas <= self.most", {"replicas": 1, "most": 1}, {"replicas": 2, "most": 1}),
        ("self.ratio >= 1.5", {"ratio": 2}, {"ratio": 1}),
        ("self.ratio > 1 && self.ratio <= 2", {"ratio": 1.5}, {"ratio": 2.5}),
        ("self.replicas < 1.5 && 2 >= self.ratio", {"replicas": 1, "ratio": 2}, {"replicas": 2, "ratio": 2}),
        ("size(self.tags) < 1.5 && self.when < timestamp('2022-01-01T00:00:00Z') && self.__namespace__ >= 'b'",
         {"tags": ["a"], "when": "2021-01-01T00:00:00Z", "namespace": "c"},
         {"tags": ["a", "b"], "when": "2021-01-01T00:00:00Z", "namespace": "c"}),
        ("self.__namespace__ == 'x'", {"namespace": "x"}, {"namespace": "y"}),
        ("has(self.a__dash__b__dot__c__slash__d__underscores__e)", {"a-b.c/d__e": ""}, {}),
        ("self.when > timestamp('2020-01-01T00:00:00Z')",
         {"when": "2021-01-01T00:00:00+01:00"}, {"when": "2019-01-01T00:00:00Z"}),
        ("self.day.getFullYear() == 2024", {"day": "2024-02-29"}, {"day": "2023-02-28"}),
        ("self.wait <= duration('90m')", {"wait": "1h30m"}, {"wait": "91m"}),
        ("self.wait < duration('25h')", {"wait": "1 day"}, {"wait": "2 days"}),
        ("self.data == b'ab'", {"data": "YWI="}, {"data": "YWM="}),
        ("type(self.port) == int ? self.port > 3 : self.port == 'http'", {"port": "http"}, {"port": 3}),
        ("dyn(self.maybe) == null || self.maybe != ''", {"maybe": "x"}, {"maybe": ""}),
        ("self.tags.all(t, t.startsWith('a'))", {"tags": ["ab"]}, {"tags": ["ab", "b"]}),
        ("self.sizes.sum() < 10 && self.sizes.max() < 6 && self.sizes.isSorted()",
         {"sizes": [1, 5]}, {"sizes": [5, 1]}),
        ("'k' in self.labels && self.labels['k'].size() < 3", {"labels": {"k": "v"}}, {"labels": {"l": "v"}}),
        ("self.ports.exists_one(p, p.number == 80)", {"ports": [{"name": "a", "number": 80}]}, {"ports": []}),
        ("self.grid[0][0] == 1", {"grid": [[1]]}, {"grid": [[2]]}),
        ("self.?replicas.orValue(7) == 7", {}, {"replicas": 1}),
        ("self.object.metadata.name == 'q' && self.object.spec.x == 1",
         {"object": {"kind": "A", "apiVersion": "v1", "metadata": {"name": "q"}, "spec": {"x": 1}}},
         {"object": {"kind": "A", "apiVersion": "v1", "metadata": {"name": "r"}, "spec": {"x": 1}}}),
        ("isIP(self.__namespace__) && ip(self.__namespace__).family() == 4",
         {"namespace": "10.0.0.1"}, {"namespace": "::1"}),
        ("cidr('10.0.0.0/8').containsIP(self.__namespace__)", {"namespace": "10.0.0.1"}, {"namespace": "11.0.0.1"}),
        ("cidr(self.__namespace__).containsCIDR('10.1.0.0/16')",
         {"namespace": "10.0.0.0/8"}, {"namespace": "11.0.0.0/8"}),
        ("url(self.__namespace__).getHostname() == 'h' && url(self.__namespace__).getPort() == '80'",
         {"namespace": "http://u@h:80/p?a=b"}, {"namespace": "http://i:80/"}),
        ("quantity(self.__namespace__).isGreaterThan(quantity('1Gi'))", {"namespace": "2Gi"}, {"namespace": "1Mi"}),
        ("semver(self.__namespace__).major() == 1", {"namespace": "1.2.3"}, {"namespace": "2.0.0"}),
        ("self.tags.indexOf('b') == 1 && self.tags.lastIndexOf('b') == 2 && self.tags.indexOf('c') == -1",
         {"tags": ["a", "b", "b"]}, {"tags": ["b"]}),
        ("self.grid.indexOf([2]) == 1 && dyn(self.sizes).indexOf(1.0) == 0",
         {"grid": [[1], [2]], "sizes": [1]}, {"grid": [[2]], "sizes": [1]}),
        ("self.__namespace__.indexOf('b') == 1 && self.__namespace__.indexOf('b', 2) == 3 && "
         "self.__namespace__.lastIndexOf('b') == 3 && self.__namespace__.lastIndexOf('b', 2) == 1",
         {"namespace": "abab"}, {"namespace": "abba"}),
        ("self.__namespace__.find('([0-9]+)-?') == '12-' && 'x'.find('y') == ''",
         {"namespace": "a12-3"}, {"namespace": "12"}),
        ("self.__namespace__.findAll('[0-9]+') == ['1', '23'] && "
         "self.__namespace__.findAll('[0-9]', 2) == ['1', '2'] && "
         "self.__namespace__.findAll('[0-9]', 0) == [] && self.__namespace__.findAll('(a)(b)?', -1) == ['a']",
         {"namespace": "a1-23"}, {"namespace": "a1-2"}),
        ("'abc'.matches(self.__namespace__)", {"namespace": "^a.c$"}, {"namespace": "^b"}),
        ("self.labels.all(k, v, k == v)", {"labels": {"a": "a"}}, {"labels": {"a": "b"}}),
        ("self.set == ['b', 'a'] && self.set + ['c', 'a'] == self.tags && [self.set] == [self.tags.slice(0, 2)]",
         {"set": ["a", "b"], "tags": ["a", "b", "c"]}, {"set": ["a", "c"], "tags": ["a", "b", "c"]}),
        ("self.set.size() == 2 && 'a' in self.set && self.set.all(t, t != '') && self.set.join() == 'ba'",
         {"set": ["b", "a"]}, {"set": ["a", "b"]}),
        ("self.ports + self.ports.filter(p, p.number > 1) == self.ports && (self.ports + self.ports).size() == 2",
         {"ports": [{"name": "a", "number": 1}, {"name": "b", "number": 2}]}, {"ports": []}),
        ("!has(self.maybe) && !has(self.object.spec)",
         {"maybe": None, "object": {"kind": "A", "apiVersion": "v1"}}, {"maybe": ""}),
    ],
)  # fmt: skip
def test_rules_hold_or_not(rule: str, good: dict[str, Any], bad: dict[str, Any]) -> None:
    raw = schema(rule)
    assert told(raw, good) == []
    assert told(raw, bad) == [f"spec: Invalid value: failed rule: {rule}"]


def test_metadata_of_the_whole_object_is_always_there() -> None:
    raw = {"type": "object", RULES: [{"rule": "self.metadata.name == 'm' && self.kind == 'K'", "message": " no "}]}
    assert told(raw, {}) == ["<nil>: Invalid value: no"]


@pytest.mark.parametrize(
    ("more", "told_", "path"),
    [
        ({}, "Invalid value: failed rule: self.replicas == 1", "spec"),
        ({"message": "say"}, "Invalid value: say", "spec"),
        ({"messageExpression": "'have %d'.format([self.replicas])"}, "Invalid value: have 2", "spec"),
        ({"messageExpression": "' '", "message": "say"}, "Invalid value: say", "spec"),
        ({"messageExpression": "self.tags[0]", "message": "say"}, "Invalid value: say", "spec"),
        ({"reason": "FieldValueForbidden", "message": "say"}, "Forbidden: say", "spec"),
        ({"reason": "FieldValueRequired", "message": "say"}, "Required value: say", "spec"),
        ({"reason": "FieldValueDuplicate"}, "Duplicate value", "spec"),
        ({"fieldPath": ".replicas", "message": "say"}, "Invalid value: say", "spec.replicas"),
        ({"fieldPath": "['a-b.c/d__e']", "message": "say"}, "Invalid value: say", "spec.a-b.c/d__e"),
        ({"fieldPath": ".labels['x']", "message": "say"}, "Invalid value: say", "spec.labels[x]"),
    ],
)
def test_error_of_a_broken_rule(more: dict[str, Any], told_: str, path: str) -> None:
    raw = schema({"rule": "self.replicas == 1", **more})
    assert told(raw, {"replicas": 2}) == [f"{path}: {told_}"]


@pytest.mark.parametrize(
    ("rule", "spec", "says"),
    [
        ("self.replicas == 1", {}, "no such key: replicas evaluating rule: self.replicas == 1"),
        ("self.tags[3] == ''", {"tags": []}, "index out of bounds: 3 evaluating rule: self.tags[3] == ''"),
        (
            "'a'.find('(') == ''",
            {},
            "Illegal regex: error parsing regexp: missing ): ( evaluating rule: 'a'.find('(') == ''",
        ),
        ("'a'.indexOf('b', -1) == 0", {}, "index out of range: -1 evaluating rule: 'a'.indexOf('b', -1) == 0"),
        ("1 / self.replicas == 1", {"replicas": 0}, "division by zero evaluating rule: 1 / self.replicas == 1"),
        (
            "self.port > 3",
            {"port": "x"},
            "'no such overload: _>_': call arguments did not match a supported operator, function or "
            "macro signature for rule: self.port > 3",
        ),
    ],
)
def test_what_cannot_be_decided_does_not_hold(rule: str, spec: dict[str, Any], says: str) -> None:
    assert told(schema(rule), spec) == [f'spec: Invalid value: "object": {says}']


def test_transition_rules_compare_with_what_was() -> None:
    raw = schema("self == oldSelf", at="namespace")
    assert told(raw, {"namespace": "a"}) == []
    assert told(raw, {"namespace": "a"}, {}) == []
    assert told(raw, {"namespace": "a"}, {"namespace": "a"}) == []
    assert told(raw, {}, {"namespace": "a"}) == []
    assert told(raw, {"namespace": "b"}, {"namespace": "a"}) == [
        'spec.namespace: Invalid value: "b": failed rule: self == oldSelf'
    ]
    for at, order in (("set", ["b", "a"]), ("tags", ["b", "a"])):
        swapped = told(schema("self == oldSelf", at=at), {at: order}, {at: ["a", "b"]})
        assert bool(swapped) == (at == "tags"), "sets have no order"
    keyed, ports = schema("self == oldSelf", at="ports"), [{"name": "a", "number": 1}, {"name": "b", "number": 5}]
    assert told(keyed, {"ports": ports[::-1]}, {"ports": ports}) == []
    assert told(keyed, {"ports": [ports[0], {"name": "b", "number": 6}]}, {"ports": ports}) != []
    grow = schema("self.number >= oldSelf.number", at="ports/items")
    old = {"ports": [{"name": "a", "number": 1}, {"name": "b", "number": 5}]}
    assert told(grow, {"ports": [{"name": "b", "number": 5}, {"name": "c", "number": 0}]}, old) == []
    [one] = told(grow, {"ports": [{"name": "b", "number": 4}]}, old)
    assert one.startswith("spec.ports[0]: ")
    labels = schema("self == oldSelf", at="labels/additionalProperties")
    [one] = told(labels, {"labels": {"a": "2", "b": "1"}}, {"labels": {"a": "1"}})
    assert one.startswith("spec.labels[a]: ")


def test_an_optional_old_value() -> None:
    raw = schema({"rule": "oldSelf.hasValue() || self.replicas == 1", "optionalOldSelf": True, "message": "m"})
    assert told(raw, {"replicas": 1}) == []
    assert told(raw, {"replicas": 2}) == ["spec: Invalid value: m"]
    assert told(raw, {"replicas": 2}, {"replicas": 9}) == []
    less = schema({"rule": "self >= oldSelf.orValue(2)", "optionalOldSelf": True}, at="replicas")
    assert told(less, {"replicas": 2}) == []
    assert len(told(less, {"replicas": 1})) == 1
    assert len(told(less, {"replicas": 2}, {"replicas": 3})) == 1


def test_what_stays_as_it_was_is_not_asked_again_but_transitions_are() -> None:
    raw = schema("self.number < 5", at="ports/items")
    bad = {"name": "a", "number": 9}
    assert told(raw, {"ports": [bad], "replicas": 2}, {"ports": [bad], "replicas": 1}) == []
    assert len(told(raw, {"ports": [bad, {"name": "b", "number": 7}]}, {"ports": [bad]})) == 1
    assert len(told(schema("oldSelf != self", at="replicas"), {"replicas": 1}, {"replicas": 1})) == 1


@pytest.mark.parametrize("stored", ["a", [1], {"a": 1}, True, 1])
@pytest.mark.parametrize("field", [name for name in FIELDS if name != "replicas"])
def test_rules_about_other_fields_hold_beside_a_stored_value_of_another_type(field: str, stored: Any) -> None:
    old = {field: stored, "replicas": 1}
    assert told(schema("self.replicas > 1"), {**old, "replicas": 2}, old) == []
    assert len(told(schema("self.replicas > 1"), {**old, "replicas": 0}, old)) == 1


def test_times_have_nanoseconds_in_rules() -> None:
    when = "2026-01-01T00:00:00.123456789Z"
    assert converted(when, CelType("timestamp")) == read_timestamp(when)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (schema("self.foo == 1"), "undefined field 'foo'"),
        (schema("self.replicas == ''"), "found no matching overload for '_==_' applied to '(int, string)'"),
        (schema("self.replicas"), "cel expression must evaluate to a bool"),
        (schema("1 +"), "compilation failed: ERROR: <input>:1:4: Syntax error"),
        (schema("{[1]: 1}"), "Unsupported map key type"),
        (schema("self.free.x == 1"), "undefined field 'x'"),
        (schema("self.any == 1"), "undefined field 'any'"),
        (schema("oldSelf.foo == 1"), "undefined field 'foo'"),
        (schema("  "), f"s.properties[spec].{RULES}[0].rule: Required value: rule is not specified"),
        (schema({"rule": "true", "message": " "}), '.message: Invalid value: " ": must be non-empty if specified'),
        (schema({"rule": "true", "message": "a\nb"}), "must not contain line breaks"),
        (schema("true ||\ntrue"), ".message: Required value: message must be specified if rule contains line breaks"),
        (schema({"rule": "true", "messageExpression": "1"}), "messageExpression must evaluate to a string"),
        (schema({"rule": "true", "messageExpression": "self.foo"}), "messageExpression compilation failed: ERROR"),
        (schema({"rule": "true", "reason": "X"}), 'Unsupported value: "X": supported values: "FieldValueDuplicate"'),
        (schema({"rule": "true", "fieldPath": ".nope"}), 'fieldPath: Invalid value: ".nope": must be a valid path'),
        (schema({"rule": "true", "fieldPath": "nope"}), 'fieldPath: Invalid value: "nope": must be a valid path'),
        (schema({"rule": "true", "optionalOldSelf": True}), "may not be set if oldSelf is not used in rule"),
        (
            schema("self == oldSelf", at="tags/items"),
            "cannot be used on the uncorrelatable portion of the schema within s.properties[spec].properties[tags]",
        ),
        (
            schema("self.tags.all(t, t.find(self.__namespace__) == '')"),
            "estimated rule cost exceeds budget by factor of 3.0x",
        ),
        (schema("self.tags.all(format, format.find('a+') == format.findAll('a+')[0])"), ""),
        (schema("self.ratio == 1"), "found no matching overload for '_==_' applied to '(double, int)'"),
        (schema("self.ratio > 'a'"), "found no matching overload for '_>_' applied to '(double, string)'"),
        (schema("self.tags.indexOF('a') == 0"), "undeclared reference to 'indexOF'"),
        (schema("1.indexOf(2) == 0"), "found no matching overload for 'indexOf' applied to '(int, int)'"),
        (schema("self == 1", at="any"), "failed to retrieve type information for x-kubernetes-validations"),
        (
            schema("self.tags.all(a, self.tags.all(b, self.tags.all(c, self.tags.all(d, a + b == c + d))))"),
            "",
        ),
        (
            schema("self.free == self.free && self.ports.all(a, self.ports.all(b, a.name.matches(self.port)))"),
            "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule",
        ),
    ],
)
def test_what_a_definition_may_not_hold(raw: dict[str, Any], says: str) -> None:
    found = faults(raw)
    assert any(says in each for each in found) if says else found == []


def test_rules_that_cost_too_much_together_are_refused_as_a_whole() -> None:
    text = {"type": "string", RULES: [{"rule": "self.contains('a')"}] * 320}
    found = faults({"type": "object", "properties": {"a": text, "b": text}})
    assert len(found) == 1
    assert found[0].startswith("s: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3")
    dear = {**text, RULES: [*text[RULES], *[{"rule": "self.matches('^[a-z]{1,9}[0-9]{1,9}$')"}] * 2]}
    found = faults({"type": "object", "properties": {"a": dear}})
    assert found[0] == f"s.properties[a].{RULES}[320].rule: Forbidden: {CONTRIBUTED}"
    assert len(found) == 3
    assert faults({"type": "object", "properties": {"a": {**text, "maxLength": 9}}}) == []


def test_a_default_must_hold_its_rules() -> None:
    raw = {"type": "object", "properties": {"a": {"type": "integer", "default": 1, RULES: [{"rule": "self > 1"}]}}}
    assert faults(raw) == ["s.properties[a].default: Invalid value: 1: failed rule: self > 1"]


def test_a_large_object_ends_in_time() -> None:
    of_list = {"l": {"type": "array", "items": {"type": "integer"}, "maxItems": 1000}}
    raw = {"type": "object", "properties": of_list, RULES: [{"rule": "self.l.all(x, self.l.all(y, y > 0))"}]}
    assert faults(raw) == []
    begun = time.process_time()
    [cause] = rule_causes({"l": [1] * 1000}, Node(raw))
    assert "'operation cancelled: actual cost limit exceeded': no further validation rules will be run" in cause.message
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("name", "said"),
    [("a", "a"), ("in", "__in__"), ("a-b", "a__dash__b"), ("a__b", "a__underscores__b"), ("1a", None), ("a b", None),
     (".a", "__dot__a"), ("-a", "__dash__a")],
)  # fmt: skip
def test_names(name: str, said: str | None) -> None:
    assert escaped(name) == said


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
TYPED = {
    "integer": st.integers(-(2**63), 2**63 - 1),
    "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
    "string": st.text(max_size=6),
}


def values(raw: dict[str, Any]) -> st.SearchStrategy[Any]:
    """That the schema lets through."""
    if raw.get("type") == "object":
        if "additionalProperties" in raw:
            return st.dictionaries(st.text(max_size=3), values(raw["additionalProperties"]), max_size=3)
        fields = {name: values(part) for name, part in raw.get("properties", {}).items()}
        return st.fixed_dictionaries({}, optional=fields)
    if raw.get("type") == "array":
        return st.lists(values(raw["items"]), max_size=3)
    return TYPED.get(raw.get("type", ""), JSON)


SOUND = {name: part for name, part in FIELDS.items() if name != "object"}
EXPRESSIONS = [
    "self == oldSelf",
    "has(self.replicas) && self.replicas > 0",
    "self.when > timestamp('2020-01-01T00:00:00Z')",
]
EXPRESSIONS += ["self.ports.all(p, p.number > 0)", "self.port == 1 || string(self.port) == 'a'", "self.grid[0][0] > 1"]
EXPRESSIONS += ["self.sizes.sum() > self.replicas", "ip(self.__namespace__).isLoopback()", "self.data.size() > 1"]
ANY = schema(*EXPRESSIONS, {"rule": "oldSelf.orValue(self) == self", "optionalOldSelf": True})


@given(values({"type": "object", "properties": SOUND}), values({"type": "object", "properties": SOUND}) | st.none())
def test_any_object_is_judged(new: Any, old: Any) -> None:
    told(ANY, new, old)


@given(
    st.lists(
        st.sampled_from(
            ["self", "oldSelf", ".", "tags", "all", "(", ")", "x", ",", "==", "1", "'a'", "[", "]", " ", "?"]
        )
    )
)
def test_any_rule_is_accepted_or_refused(parts: list[str]) -> None:
    schema_faults(schema("".join(parts) or "true"), "s")


def test_nobody_loads_the_engine_before_there_is_a_rule() -> None:
    code = "import sys, actors.apiserver.actor; print([m for m in sys.modules if 'cel_expr' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
