"""Custom objects as they are written: nulls, embedded objects, scale, what an update may leave as it was, warnings."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.writes.ownership.apply import applied
from actors.apiserver.writes.ownership.entries import APPLY, Author
from protocols.kinds.custom.definitions.definition import Definition, Names, Version
from protocols.kinds.custom.schema.coercion import MOST_SHOWN, drop_nulls, fill
from protocols.kinds.custom.schema.node import Node
from protocols.kinds.custom.serving.kind import Kind
from protocols.kinds.custom.serving.resources import CustomConverter
from protocols.kinds.custom.serving.strategy import CustomStrategy
from protocols.kinds.shapes.clean import WrongType
from protocols.kube.errors import DefaultsTooLarge
from protocols.kube.names import VALUE_TEXT
from protocols.kube.objects import same

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
OPEN = {"x-kubernetes-preserve-unknown-fields": True}
OBJECT = {"type": "object", "x-kubernetes-embedded-resource": True, **OPEN}
FIELDS: dict[str, Any] = {
    "plain": TEXT,
    "maybe": {**TEXT, "nullable": True},
    "filled": {**TEXT, "default": "x"},
    "texts": {"type": "object", "additionalProperties": TEXT},
    "filleds": {"type": "object", "additionalProperties": {**TEXT, "default": "y"}},
    "list": {"type": "array", "items": TEXT},
    "items": {"type": "array", "items": {**NUMBER, "default": 1}},
    "parts": {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}},
    "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
    "any": OPEN,
    "free": {"type": "object", **OPEN},
    "template": OBJECT,
    "templates": {"type": "array", "items": OBJECT},
    "replicas": NUMBER,
}
OK, EMPTY = {"apiVersion": "v1", "kind": "Ok"}, 'Invalid value: "": must not be empty'
STATUS = {"type": "object", "properties": {"replicas": NUMBER, "selector": TEXT, "tags": FIELDS["tags"]}}


def kind(**more: Any) -> Kind:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": FIELDS}, "status": STATUS}}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    scale["labelSelectorPath"] = ".status.selector"
    version = Version("v1", True, True, {**schema, **more}, status=True, scale=scale)
    return Kind(Definition("ks.a.b", "", 1, "a.b", True, Names(kind="K"), (version,), True, False), version)


def made(status: Any = None, **spec: Any) -> dict[str, Any]:
    obj = {"apiVersion": "a.b/v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec}
    return obj if status is None else {**obj, "status": status}


def cleaned(**spec: Any) -> Any:
    obj = made(**copy.deepcopy(spec))
    kind().clean(obj)
    return obj["spec"]


def faults(**spec: Any) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in CustomStrategy(kind()).validate_create(made(**spec))]


def test_a_null_counts_as_left_out_where_none_may_stand() -> None:
    assert cleaned(plain=None, maybe=None, filled=None, any=None) == {"maybe": None, "filled": None}
    assert cleaned(texts={"a": None, "b": ""}, filleds={"a": None}) == {"texts": {"b": ""}, "filleds": {"a": None}}
    assert cleaned(parts=[{"a": None}], list=[None], free={"x": None}) == {
        "parts": [{}], "list": [None], "free": {"x": None},
    }  # fmt: skip
    obj = {"filled": None, "filleds": {"a": None}, "items": [None, 2], "maybe": None, "list": [None]}
    fill(obj, Node({"type": "object", "properties": FIELDS}))
    assert obj == {"filled": "x", "filleds": {"a": "y"}, "items": [1, 2], "maybe": None, "list": [None]}
    assert faults(list=[None]) == [
        'spec.list[0]: Invalid value: "null": spec.list[0] in body must be of type string: "null"'
    ]


def test_stored_object_is_shown_with_the_defaults_that_fit() -> None:
    item = {"type": "object", "properties": {"a": {**TEXT, "default": "x" * (MOST_SHOWN // 4)}}}
    large = kind(properties={"spec": {"type": "array", "items": item}})
    shown = CustomConverter(large, {"v1": large}).to_version({**made(), "spec": [{} for _ in range(10)]})
    assert [len(each) for each in shown["spec"]] == [1] * 3 + [0] * 7
    with pytest.raises(DefaultsTooLarge):
        CustomStrategy(large).default({**made(), "spec": [{} for _ in range(100)]})


def test_a_list_may_keep_what_its_items_do_not_name() -> None:
    items = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": TEXT}}}}
    keeping = kind(
        properties={"spec": {"type": "array", "items": items, **OPEN}, "other": {"type": "array", "items": items}}
    )
    obj = {**made(), "spec": [{"x": 1, "a": {"b": "", "y": 1}}], "other": [{"x": 1}]}
    assert keeping.clean(obj) == ["other[0].x", "spec[0].a.y"]
    assert (obj["spec"], obj["other"]) == ([{"x": 1, "a": {"b": ""}}], [{}])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FIELDS, "x"]), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_nulls_go_once_and_nothing_else_does(value: Any) -> None:
    node = Node({"type": "object", "properties": {**FIELDS, "self": {"type": "object", "properties": FIELDS}}})
    once = copy.deepcopy(value)
    drop_nulls(once, node)
    twice = copy.deepcopy(once)
    drop_nulls(twice, node)
    assert twice == once
    if isinstance(value, dict):
        assert {name: part for name, part in value.items() if part is not None}.keys() <= once.keys()


def test_embedded_metadata_is_read_as_all_metadata_is() -> None:
    obj = made(
        template={"metadata": {"creationTimestamp": None, "odd": 1, "name": "x"}}, templates=[{"metadata": {"o": 1}}]
    )
    assert kind().clean(obj) == ["spec.template.metadata.odd", "spec.templates[0].metadata.o"]
    assert obj["spec"] == {"template": {"metadata": {"name": "x"}}, "templates": [{"metadata": {}}]}


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ({"metadata": {"labels": {"a": 1}}}, "number into Go struct field ObjectMeta.labels of type string"),
        ({"metadata": 3}, "spec.template.metadata: Invalid value: 3: json: cannot unmarshal"),
        ({"apiVersion": 1}, "spec.template.apiVersion: Invalid value: 1: must be a string"),
        ({"kind": ["x"]}, 'spec.template.kind: Invalid value: ["x"]: must be a string'),
    ],
)
def test_embedded_objects_of_wrong_types(template: Any, told: str) -> None:
    for clean in (kind().clean, lambda obj: kind().clean_part(obj, "spec")):
        with pytest.raises(WrongType) as raised:
            clean(made(template=template))
        assert told in str(raised.value)


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ({}, ["apiVersion: Required value", "kind: Required value"]),
        ({"apiVersion": "", "kind": ""}, [f"apiVersion: {EMPTY}", f"kind: {EMPTY}"]),
        ({**OK, "apiVersion": "a/b/c"}, ['apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c']),
        ({**OK, "kind": "o k"}, ['kind: Invalid value: "o k": may have mixed case, but should otherwise match: a DNS']),
        ({**OK, "metadata": {"name": "A b"}}, []),
        ({**OK, "metadata": {"name": ".."}}, ["metadata.name: Invalid value: \"..\": may not be '..'"]),
        ({**OK, "metadata": {"name": "a/b"}}, ["metadata.name: Invalid value: \"a/b\": may not contain '/'"]),
        ({**OK, "metadata": {"labels": {"a": "-"}}}, [f'metadata.labels: Invalid value: "-": {VALUE_TEXT}']),
        ({**OK, "metadata": {"namespace": "A.b"}}, ['metadata.namespace: Invalid value: "A.b"']),
    ],
)
def test_embedded_objects_are_judged(template: Any, told: list[str]) -> None:
    found = faults(template=template)
    assert len(found) == len(told)
    assert all(one.startswith(f"spec.template.{other}") for one, other in zip(found, told, strict=True))


def test_what_a_scale_shows_is_a_number() -> None:
    strategy = CustomStrategy(kind())
    assert faults(replicas=-1) == [".spec.replicas: Invalid value: -1: should be a non-negative integer"]
    assert faults(replicas=2**31) == [
        ".spec.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647"
    ]
    causes = strategy.validate_status(made(status={"replicas": -1}, replicas=-1), made(replicas=-1))
    assert [cause.field for cause in causes] == [".status.replicas"]
    bare = Node({"type": "object", **OPEN})
    assert bare.kept
    wrong = CustomStrategy(kind(properties={"spec": OPEN, "status": OPEN}))
    told = [cause.message for cause in wrong.validate_create(made(status={"selector": 3}, replicas="x"))]
    assert told == [
        "Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64",
        'Invalid value: "": .status.selector accessor error: 3 is of the type int64, expected string',
    ]


def test_a_status_is_judged_alone() -> None:
    """Also where a newer schema would not let in the rest."""
    strategy = CustomStrategy(kind(required=["spec", "more"]))
    old = made(plain=3)
    assert strategy.validate_status({**old, "status": {"replicas": 1}}, old) == []
    assert [c.field for c in strategy.validate_status({**old, "status": {"replicas": "x"}}, old)][:1] == [
        "status.replicas"
    ]
    assert [cause.field for cause in strategy.validate_update({**made(plain=3), "x": 1}, old)] == ["more"]


def test_update_from_a_number_to_an_equal_boolean_is_a_change() -> None:
    old, new = made(free={"a": 1}), made(free={"a": True})
    assert not same(new, old)
    assert same(made(free={"a": 1.0}), old)
    assert CustomStrategy(kind()).bumps_generation(new, old)
    shape, author = kind().shape, Author("one", APPLY, "a.b/v1")
    first = applied({}, old, shape, [], author)
    assert applied(first.obj, new, shape, first.entries, author).obj["spec"]["free"]["a"] is True


def test_what_was_there_twice_may_stay_so() -> None:
    strategy = CustomStrategy(kind())
    assert [cause.field for cause in strategy.validate_update(made(tags=["a", "a"]), made(tags=["a"]))] == [
        "spec.tags[1]"
    ]
    assert strategy.validate_update(made(tags=["a", "a", "b"]), made(tags=["a", "a"])) == []
    assert strategy.validate_status(made(status={"tags": ["b", "b"]}), made(status={"tags": ["a", "a"]})) == []


def test_new_finalizers_with_poor_names_are_reported() -> None:
    def held(*names: str) -> dict[str, Any]:
        return {"metadata": {"finalizers": list(names)}}

    strategy = CustomStrategy(kind())
    assert strategy.warnings(held("orphan", "example.com/a"), None) == []
    told = 'metadata.finalizers: "{}": prefer a domain-qualified finalizer name {}to avoid accidental conflicts'
    [one, other] = strategy.warnings(held("plain", "a.b", "old"), held("old"))
    assert one.startswith(told.format("a.b", "including a path (/) "))
    assert other.startswith(told.format("plain", ""))
    assert strategy.warnings(held("A b"), None)[0].startswith('metadata.finalizers: "A b": name part must consist of')
