"""Structural schemas at work: pruning, defaults, validation, patterns, and the shape server-side apply sees."""

import re
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors.apiserver.writes.ownership.apply import merged
from actors.apiserver.writes.ownership.compare import changes
from protocols.kinds.check.budget import Budget, BudgetSpent, within
from protocols.kinds.custom.schema.coercion import fill, pruned
from protocols.kinds.custom.schema.node import Node
from protocols.kinds.custom.schema.ownership import shape_of
from protocols.kinds.custom.schema.pattern import Pattern, PatternInvalid
from protocols.kinds.custom.schema.validate import part_causes, schema_causes
from protocols.kinds.shapes.shape import MAP, STRUCT, Shape
from protocols.kube.errors import DefaultsTooLarge

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
        "when": {"type": "string", "format": "date-time"},
        "port": {"x-kubernetes-int-or-string": True},
        "free": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"a": {"type": "string"}},
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 2},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}, "maxItems": 3},
        "steps": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": {"type": "string"}, "run": {"type": "string", "default": "x"}},
            },
        },
        "object": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "maybe": {"type": "string", "nullable": True},
        "ratio": {"type": "number", "multipleOf": 0.5},
    },
}
WRONG = "Invalid value:"
A = {"required": ["a"]}
ROOT = Node({"type": "object", "properties": {"spec": SPEC}})


def faults(**spec: Any) -> list[str]:
    causes = schema_causes({"spec": {"size": 1, **spec}}, ROOT)
    return [f"{cause.field}: {cause.message}" for cause in causes]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"size": "a"}, 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'),
        ({"size": None}, 'spec.size: Invalid value: "null": spec.size in body must be of type integer: "null"'),
        ({"size": True}, 'spec.size: Invalid value: "boolean": spec.size in body must be of type integer: "boolean"'),
        ({"size": 9}, "spec.size: Invalid value: 9: spec.size in body should be less than or equal to 5"),
        ({"size": 0}, "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        ({"color": "red2"}, 'spec.color: Unsupported value: "red2": supported values: "red", "blue"'),
        ({"name": "A"}, "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'"),
        ({"name": "abcd"}, "spec.name: Too long: may not be more than 3 bytes"),
        ({"when": "now"}, 'spec.when: Invalid value: "now": spec.when in body must be of type date-time: "now"'),
        ({"port": 1.5}, f'spec.port: {WRONG} "number": spec.port in body must be of type integer,string: "number"'),
        (
            {"labels": {"a": 1}},
            f'spec.labels.a: {WRONG} "integer": spec.labels.a in body must be of type string: "integer"',
        ),
        ({"labels": {"a": "", "b": "", "c": ""}}, "spec.labels: Too many: 3: must have at most 2 items"),
        ({"tags": ["a", "b", "a"]}, 'spec.tags[2]: Duplicate value: "a"'),
        ({"tags": ["a", "b", "c", "d"]}, "spec.tags: Too many: 4: must have at most 3 items"),
        ({"steps": [{"run": "r"}]}, "spec.steps[0].id: Required value"),
        ({"steps": [{"id": "a"}, {"id": "a"}]}, 'spec.steps[1]: Duplicate value: {"id":"a"}'),
        ({"ratio": 0.7}, "spec.ratio: Invalid value: 0.7: spec.ratio in body should be a multiple of 0.5"),
    ],
)
def test_faults_in_upstreams_words(spec: dict[str, Any], told: str) -> None:
    assert faults(**spec) == [told]


def test_what_is_sound_has_no_faults() -> None:
    assert faults(color="red", name="abc", when="2026-01-01T00:00:00Z", port="80", maybe=None, ratio=1.5) == []
    assert faults(port=80, free={"b": [1]}, labels={"a": "b"}, tags=[], steps=[{"id": "a"}], size=2.0) == []
    assert [c.field for c in schema_causes({"spec": {}}, ROOT)] == ["spec.size"]


@pytest.mark.parametrize(
    ("logic", "good", "bad", "told"),
    [
        (
            {"anyOf": [{"required": ["b"]}, {"properties": {"a": {"maxLength": 1}}}]},
            {"a": ""},
            {"a": "xy"},
            ["must validate at least one schema (anyOf)", "s.a: Too long: may not be more than 1 bytes"],
        ),
        ({"oneOf": [A, {"required": ["b"]}]}, {"b": ""}, {}, ["Found none valid", "s.a: Required value"]),
        ({"oneOf": [A, {"required": ["b"]}]}, {"b": ""}, {"a": "", "b": ""}, ["Found 2 valid alternatives"]),
        ({"not": {"required": ["a"]}}, {"b": ""}, {"a": ""}, ["must not validate the schema (not)"]),
        (
            {"allOf": [{"required": ["a"]}]},
            {"a": ""},
            {},
            ["s.a: Required value", "must validate all the schemas (allOf). None validated"],
        ),
    ],
)
def test_logic(logic: dict[str, Any], good: Any, bad: Any, told: list[str]) -> None:
    text = {"type": "string"}
    root = Node(
        {"type": "object", "properties": {"s": {"type": "object", "properties": {"a": text, "b": text}, **logic}}}
    )
    assert schema_causes({"s": good}, root) == []
    found = [f"{cause.field}: {cause.message}" for cause in schema_causes({"s": bad}, root)]
    for fault, wanted in zip(found, told, strict=True):
        assert fault == wanted or (fault.startswith('<nil>: Invalid value: "": "s" ') and fault.endswith(wanted))


@pytest.mark.parametrize(
    ("raw", "value", "told"),
    [
        ({"type": "string", "enum": ["A"]}, 5, ["FieldValueTypeInvalid", "FieldValueNotSupported"]),
        ({"type": "string", "nullable": True, "enum": ["A"]}, None, ["FieldValueNotSupported"]),
        ({"type": "integer", "format": "int32"}, 2**40, []),
        ({"type": "integer"}, 2**63, ["FieldValueTypeInvalid"]),
        ({"type": "integer"}, 1e16, ["FieldValueTypeInvalid"]),
        ({"type": "number"}, 2**70, []),
    ],
)
def test_values_are_judged_as_upstream_reads_them(raw: dict[str, Any], value: Any, told: list[str]) -> None:
    assert [cause.reason for cause in part_causes(value, Node(raw), "a")] == told


def test_an_update_may_keep_what_was_there() -> None:
    old = {"spec": {"size": 9, "steps": [{"id": "a", "run": 1}, {"id": "b"}]}}
    new = {"spec": {"size": 9, "steps": [{"id": "b"}, {"id": "a", "run": 1}], "color": "red"}}
    assert schema_causes(new, ROOT, old) == []
    new["spec"]["size"] = 8
    assert [cause.field for cause in schema_causes(new, ROOT, old)] == ["spec.size"]


def test_update_that_replaces_a_number_by_an_equal_boolean_is_validated() -> None:
    [cause] = schema_causes({"spec": {"size": True}}, ROOT, {"spec": {"size": 1}})
    assert cause.field == "spec.size"


def test_multiple_of_a_fraction_is_no_integer_beyond_the_doubles() -> None:
    node = Node({"type": "number", "multipleOf": 0.5})
    assert [cause.reason for cause in schema_causes(10**400, node)] == ["FieldValueInvalid"]  # type: ignore[arg-type]


def test_unknown_fields_go_and_preserved_ones_stay() -> None:
    obj = {
        "kind": "K",
        "metadata": {"x": 1},
        "odd": 1,
        "spec": {
            "strange": 1,
            "free": {"any": {"thing": 1}, "a": "s"},
            "labels": {"k": "v"},
            "steps": [{"id": "a", "no": 1}],
            "object": {"apiVersion": "v1", "kind": "P", "metadata": {"name": "n"}, "spec": {}},
        },
    }
    assert sorted(pruned(obj, ROOT)) == ["odd", "spec.steps[0].no", "spec.strange"]
    open_ended = Node({"type": "object", "properties": {"spec": {"type": "object", "additionalProperties": True}}})
    other = {"spec": {"a": 1, "b": {"c": 2}, "d": [{"e": 3}]}}
    assert sorted(pruned(other, open_ended)) == ["spec.b.c", "spec.d[0].e"]
    assert other == {"spec": {"a": 1, "b": {}, "d": [{}]}}
    assert obj["spec"]["free"] == {"any": {"thing": 1}, "a": "s"}  # type: ignore[index]  # a dict
    assert obj["spec"]["object"]["metadata"] == {"name": "n"}  # type: ignore[index]  # a dict
    assert "odd" not in obj


def test_defaults_fill_what_is_left_out() -> None:
    obj: dict[str, Any] = {"spec": {"size": None, "maybe": None, "steps": [{"id": "a"}, {"id": "b", "run": "y"}]}}
    fill(obj, ROOT)
    assert obj["spec"] == {"size": 2, "maybe": None, "steps": [{"id": "a", "run": "x"}, {"id": "b", "run": "y"}]}


def test_defaults_beyond_the_bound_are_an_error_and_the_rest_stays_missing() -> None:
    item = {"type": "object", "properties": {"a": {"type": "string", "default": "x" * 98}}}
    node = Node({"type": "object", "properties": {"list": {"type": "array", "items": item}}})
    obj: dict[str, Any] = {"list": [{} for _ in range(10)]}
    with pytest.raises(DefaultsTooLarge, match="more than 450 bytes"):
        fill(obj, node, 450)
    assert [len(each) for each in obj["list"]] == [1] * 4 + [0] * 6
    fill(obj, node, 600)
    assert all(each == {"a": "x" * 98} for each in obj["list"])


def test_defaults_within_defaults_count() -> None:
    inner = {"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": "x" * 98}}}
    with pytest.raises(DefaultsTooLarge):
        fill({}, Node({"type": "object", "properties": {"b": inner}}), 101)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "run", "a"]), inner, max_size=3),
    max_leaves=8,
)
SPECS = st.dictionaries(st.sampled_from([*SPEC["properties"], "unknown"]), VALUES, max_size=6)


@settings(deadline=None)
@given(SPECS, SPECS)
@example({}, {"steps": [None, None]})
def test_any_object_is_pruned_once_filled_once_and_judged(one: dict[str, Any], other: dict[str, Any]) -> None:
    for spec in (one, other):
        pruned({"spec": spec}, ROOT)
        assert pruned({"spec": spec}, ROOT) == []
        fill({"spec": spec}, ROOT)
        before = repr(spec)
        fill({"spec": spec}, ROOT)
        assert repr(spec) == before
        schema_causes({"spec": spec}, ROOT)
    assert schema_causes({"spec": one}, ROOT, {"spec": one}) == []


@settings(deadline=None)
@given(SPECS, SPECS)
def test_ownership_bears_any_value(one: dict[str, Any], other: dict[str, Any]) -> None:
    shape = shape_of(ROOT, "com.example.v1.K", Shape(STRUCT, name="ObjectMeta"))
    changes({"spec": one}, {"spec": other}, shape)


def test_lists_and_free_fields_merge_by_their_type() -> None:
    shape = shape_of(ROOT, "com.example.v1.K", Shape(STRUCT, name="ObjectMeta"))
    live = {"spec": {"tags": ["a"], "steps": [{"id": "a", "run": "1"}], "free": {"a": "1", "deep": {"x": 1}}}}
    config = {"spec": {"tags": ["b"], "steps": [{"id": "b"}], "free": {"deep": {"y": 2}}}}
    assert merged(live, config, shape)["spec"] == {
        "tags": ["a", "b"],
        "steps": [{"id": "a", "run": "1"}, {"id": "b"}],
        "free": {"a": "1", "deep": {"x": 1, "y": 2}},
    }
    assert shape.fields["spec"].fields["labels"].form == MAP


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", ["a.b-c", "x"], ["A", "a..b", "a\n"]),
        (r"foo\b", ["a foo b"], ["foob"]),
        ("(?i)^abc$", ["ABC"], ["abd"]),
        (r"^[[:alpha:]]+\z", ["ab"], ["a1"]),
        ("^.{2,4}$", ["ab", "abcd"], ["a", "abcde", "a\n"]),
        ("", ["", "x"], []),
        ("^$|^a", ["", "ab"], ["b"]),
    ],
)
def test_patterns(pattern: str, good: list[str], bad: list[str]) -> None:
    made = Pattern(pattern)
    assert all(map(made.found_in, good))
    assert not any(map(made.found_in, bad))


@given(
    st.sampled_from(["a+b*", "(ab|a)c?", "^a.c$", "[^ab]{2}", r"\d+-\w", "(a|b)*c", "x??y", r"\Ba", "^(a{1,2}){2}$"]),
    st.text("abcxy1- \n", max_size=12),
)
def test_patterns_find_what_pythons_own_find(pattern: str, text: str) -> None:
    """On texts without a last newline, before which Python's $ matches too."""
    if not text.endswith("\n"):
        assert Pattern(pattern).found_in(text) is bool(re.search(pattern, text, re.ASCII))


def test_a_pattern_made_to_backtrack_takes_no_time() -> None:
    began = time.process_time()
    assert not Pattern("^(a+)+$").found_in("a" * 5000 + "b")
    assert time.process_time() - began < 2.0


def test_pattern_of_a_long_text_that_is_everyday_is_matched() -> None:
    made = Pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    assert made.found_in("a" * 2_900_000)
    assert not made.found_in("a-" * 1_450_000)


def test_pattern_whose_steps_pass_the_bound_is_not_matched() -> None:
    with pytest.raises(BudgetSpent):
        Pattern("^(a|b)*a(a|b){1000}c$").found_in("ab" * 500_000)


def test_patterns_within_a_budget_spend_it() -> None:
    made = Pattern("^(a|b)*a(a|b){1000}c$")
    with within(Budget(60.0, units=1_000_000)), pytest.raises(BudgetSpent):
        list(map(made.found_in, ["ab" * 15_000] * 20))


def test_pattern_of_letters_of_all_scripts_is_understood() -> None:
    made = Pattern(r"^\p{L}+$")
    assert made.found_in("Žluťoučký")
    assert not made.found_in("a1")


def test_pattern_within_a_text_of_lone_surrogates_does_not_fail() -> None:
    assert Pattern("^.$").found_in("\ud800")


NO_PATTERNS = ["(", "(?=a)", r"(a)\1", "[a", "(a{100}){11}", "a{1001}", r"\C", r"\Z", "\ud800", "a" * 300_000]


@pytest.mark.parametrize("pattern", NO_PATTERNS)
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(PatternInvalid, match="error parsing regexp"):
        Pattern(pattern).check()
