"""Field validation without a server: what is taken out, what is refused, what is said twice."""

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.actor import TABLE
from actors.apiserver.api.encoding.yaml_text import read_yaml
from actors.apiserver.api.resource import Resource
from actors.apiserver.api.schemas.registry import kind_shape
from actors.apiserver.api.schemas.shape import Shape
from actors.apiserver.writes.fields import WrongType, clean
from actors.apiserver.writes.validation import duplicates

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
names = st.sampled_from(["metadata", "spec", "status", "containers", "name", "labels", "data", "devices", "x"])
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def shape_of(kind: str) -> Shape:
    found = kind_shape("", "v1", kind)
    assert found is not None
    return found


@given(st.sampled_from(TABLE.rows), st.dictionaries(names, anything, max_size=4))
def test_any_json_is_cleaned_or_refused(row: Resource, obj: dict[str, Any]) -> None:
    shape = kind_shape(row.group, row.version, row.kind)
    assert shape is not None
    before = copy.deepcopy(obj)
    try:
        unknown = clean(obj, shape)
    except WrongType:
        return
    assert clean(copy.deepcopy(obj), shape) == []
    assert (obj == before) == (not unknown) or has_null(before)


def has_null(value: Any) -> bool:
    """A null is dropped or becomes the zero value without being unknown."""
    each = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is None or any(map(has_null, each))


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        ({"spec": 3}, "json: cannot unmarshal number into Go struct field Pod.spec of type v1.PodSpec"),
        (
            {"spec": {"priority": 2**31}},
            "number 2147483648 into Go struct field PodSpec.spec.priority of type int32",
        ),
        ({"spec": {"priority": 1.5}}, "number 1.5 into Go struct field PodSpec.spec.priority of type int32"),
        ({"metadata": {"labels": {"a": 1}}}, "number into Go struct field ObjectMeta.metadata.labels of type string"),
        ({"metadata": {"labels": "x"}}, "string into Go struct field ObjectMeta.metadata.labels of type map[string]"),
        ({"spec": {"hostNetwork": "yes"}}, "string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        ({"status": {"startTime": "noon"}}, 'parsing time "noon" as "2006-01-02T15:04:05Z07:00"'),
    ],
)
def test_wrong_types_in_the_words_of_go(obj: dict[str, Any], text: str) -> None:
    with pytest.raises(WrongType) as caught:
        clean(obj, shape_of("Pod"))
    assert text in str(caught.value)


def test_numbers_strings_and_times_that_are_right() -> None:
    port = {"containerPort": 80, "protocol": None}
    probe = {"httpGet": {"port": "web"}, "periodSeconds": 3}
    container = {"name": "c", "ports": [port], "livenessProbe": probe, "resources": {"limits": {"cpu": 1, "m": "1Gi"}}}
    times = {"creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:00.5+02:00"}
    assert clean({"metadata": times, "spec": {"containers": [container]}}, shape_of("Pod")) == []


def test_paths_of_unknown_fields() -> None:
    obj = {"spec": {"containers": [{"name": "c"}, {"env": [{"nmae": 1}]}], "x": 1}, "y": 2}
    assert clean(obj, shape_of("Pod")) == ["spec.containers[1].env[0].nmae", "spec.x", "y"]
    assert obj == {"spec": {"containers": [{"name": "c"}, {"env": [{}]}]}}


@given(anything)
def test_clean_text_has_no_duplicates(value: Any) -> None:
    value = msgspec.json.decode(msgspec.json.encode(value))
    for raw in (json.dumps(value), json.dumps(value, indent=2)):
        decoded = json.loads(raw)
        assert duplicates(raw.encode(), decoded, thorough=True) == []
        assert duplicates(raw.encode(), decoded, thorough=False) == []


@pytest.mark.parametrize("thorough", [True, False])
def test_duplicates_are_reported_by_path(thorough: bool) -> None:
    raw = b'{"a": 1, "b": [{"c": 1, "c": 2, "c": 3}], "a": {"d": 1, "d": 1}}'
    assert duplicates(raw, json.loads(raw), thorough) == ["a", "a.d", "b[0].c"]


def test_duplicates_in_yaml_are_reported_by_line() -> None:
    assert read_yaml("a: 1\nb:\n  c: 1\n  c: 2\na: 2\n").repeated == [
        'line 4: key "c" already set in map',
        'line 5: key "a" already set in map',
    ]
