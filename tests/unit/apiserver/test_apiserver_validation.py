"""Field validation without a server: what is taken out, what is refused, what is said twice."""

import copy
import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.table import TABLE
from actors.apiserver.writes.validation import Review, body_kind, duplicates
from protocols.kinds.served.row import Served
from protocols.kinds.shapes.clean import WrongType, clean
from protocols.kinds.shapes.registry import kind_shape
from protocols.kinds.shapes.shape import Shape
from protocols.kube.yaml_text import read_yaml

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
def test_any_json_is_cleaned_or_refused(row: Served, obj: dict[str, Any]) -> None:
    shape = kind_shape(row.group, row.version, row.kind)
    assert shape is not None
    before = copy.deepcopy(obj)
    try:
        unknown = clean(obj, shape)
    except WrongType:
        return
    again = copy.deepcopy(obj)
    assert clean(again, shape) == []
    assert again == obj, "a second pass changes nothing"
    assert clean(before, shape, typed=False) == unknown


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
    containers = [{"name": "c", "resources": {}}, {"name": "", "env": [{"name": ""}], "resources": {}}]
    assert obj == {"metadata": {}, "spec": {"containers": containers}, "status": {}}


def test_clean_typed_object_adds_what_is_never_absent() -> None:
    role: dict[str, Any] = {"metadata": {"labels": {}}}
    clean(role, kind_shape("rbac.authorization.k8s.io", "v1", "ClusterRole") or shape_of("Pod"))
    assert role == {"metadata": {}, "rules": None}


def test_clean_zero_is_removed_unless_it_means_something() -> None:
    container = {"name": "c", "tty": False, "image": "", "args": [], "securityContext": {"privileged": False}}
    obj = {"spec": {"containers": [container], "priority": 0, "nodeName": "", "hostNetwork": False, "nodeSelector": {}}}
    clean(obj, shape_of("Pod"))
    kept = {"name": "c", "resources": {}, "securityContext": {"privileged": False}}
    assert obj["spec"] == {"containers": [kept], "priority": 0}


def test_zeros_of_every_kind_are_known() -> None:
    made = [row for row in TABLE.built_in if "create" in row.verbs]
    unknown = [row.gvr for row in made if row.shape is None or "metadata" not in row.shape.present]
    assert unknown == [], "mark its fields in protocols/kinds/facts: zeros that mean something would be lost"


def test_clean_configuration_keeps_its_words() -> None:
    obj = {"spec": {"containers": [{"name": "c", "tty": False, "resources": {"limits": {"cpu": "1000m"}}}]}}
    before = copy.deepcopy(obj)
    assert clean(obj, shape_of("Pod"), typed=False) == []
    assert obj == before


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("+1", "+1"),
        ("1.1Ki", "1126400m"),
        ("9223372036854775808", "9223372036854775808"),
        (1, "1"),
        (0.5, "500m"),
        ("1e3", "1e3"),
        ("0", "0"),
        (0, "0"),
        ("1Gi", "1Gi"),
    ],
)
def test_clean_quantity_is_canonical(given: Any, stored: str) -> None:
    node = {"status": {"capacity": {"cpu": given}}}
    clean(node, shape_of("Node"))
    assert node["status"]["capacity"] == {"cpu": stored}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("2026-01-01T02:00:00+02:00", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.75Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
    ],
)
def test_clean_time_is_in_utc(given: str, stored: str) -> None:
    pod = {"metadata": {"deletionTimestamp": given}}
    clean(pod, shape_of("Pod"))
    assert pod["metadata"] == {"deletionTimestamp": stored}


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


MIXED = """{"kind": "ConfigMap", "zero": 1, "zero": 2, "metadata": {"name": "a", "odd": 1, "name": "b"},
 "data": {"k": "v", "k": "w"}, "after": 1}"""
IN_ORDER = [
    'unknown field "zero"',
    'duplicate field "zero"',
    'unknown field "metadata.odd"',
    'duplicate field "metadata.name"',
    'duplicate field "data.k"',
    'unknown field "after"',
]


def test_warnings_stand_in_the_order_of_the_document() -> None:
    review, body = Review("Warn"), json.loads(MIXED)
    review.text(MIXED.encode(), "application/json", body)
    review.body(body, body_kind(TABLE.of("configmaps"), ""))
    assert review.warnings == IN_ORDER


def test_warnings_of_a_patch_stand_in_the_order_of_their_names() -> None:
    review, body = Review("Warn"), json.loads(MIXED)
    review.text(b"{}", "application/merge-patch+json", {})
    review.body(body, body_kind(TABLE.of("configmaps"), ""))
    assert review.warnings == ['unknown field "after"', 'unknown field "metadata.odd"', 'unknown field "zero"']


def test_duplicates_below_a_long_key_take_linear_time() -> None:
    """Each field below the key once got the whole path as a text of its own: 40 GB of them here."""
    wide = ",".join(f'"{number}":1' for number in range(40_000))
    raw = f'{{"{"k" * 1_000_000}":{{{wide},"a":1,"a":2}}}}'.encode()
    began = time.process_time()
    [found] = duplicates(raw, msgspec.json.decode(raw), thorough=True)
    assert found == "k" * 4096
    assert time.process_time() - began < 3


def test_times_before_the_year_1000_are_stored_with_four_digits() -> None:
    lease = kind_shape("coordination.k8s.io", "v1", "Lease")
    assert lease is not None
    obj = {"metadata": {"creationTimestamp": "0999-01-01T01:00:00+01:00"},
           "spec": {"renewTime": "0999-01-01T01:00:00.500000+01:00"}}  # fmt: skip
    for _ in range(2):
        assert clean(obj, lease) == []
        assert obj["metadata"]["creationTimestamp"] == "0999-01-01T00:00:00Z"
        assert obj["spec"]["renewTime"] == "0999-01-01T00:00:00.500000Z"
