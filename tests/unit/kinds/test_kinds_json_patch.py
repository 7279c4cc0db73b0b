from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.kinds.patches.json_patch import (
    COPY_LIMIT,
    OPERATIONS_LIMIT,
    apply_json_patch,
    apply_merge_patch,
)
from protocols.kube.errors import KubeError
from protocols.kube.jsons import decode_body, same_json

Json = dict[str, Any]

scalars = st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("ab", max_size=2)
keys = st.text("abc", max_size=1)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3))
documents = st.dictionaries(keys, values, max_size=4)
with_nulls = st.recursive(
    scalars | st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)
)


RFC_7386 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("document", "patch", "expected"), RFC_7386)
def test_merge_patch(document: Json, patch: Json, expected: Json) -> None:
    assert apply_merge_patch(document, patch) == expected


@pytest.mark.parametrize("patch", [None, [], "a", 1])
def test_merge_patch_must_be_an_object(patch: Any) -> None:
    with pytest.raises(KubeError) as caught:
        apply_merge_patch({}, patch)
    assert caught.value.http == 400


@given(documents, st.dictionaries(keys, with_nulls, max_size=4))
def test_merge_patch_twice_is_once_and_changes_no_input(document: Json, patch: Json) -> None:
    before = repr((document, patch))
    once = apply_merge_patch(document, patch)
    assert apply_merge_patch(once, patch) == once
    assert repr((document, patch)) == before


def test_json_patch() -> None:
    document = {"a": [1, 2], "b": {"c": 1}}
    patch = [
        {"op": "test", "path": "/b/c", "value": 1},
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "replace", "path": "/b/c", "value": 2},
        {"op": "copy", "from": "/b", "path": "/d"},
        {"op": "move", "from": "/b", "path": "/e~1f"},
        {"op": "remove", "path": "/a/0"},
    ]
    assert apply_json_patch(document, patch) == {"a": [2, 3], "d": {"c": 2}, "e/f": {"c": 2}}
    assert document == {"a": [1, 2], "b": {"c": 1}}


@pytest.mark.parametrize(
    ("patch", "found"),
    [
        (None, {"a": 1, "list": [1, 2]}),
        ([{"op": "replace", "path": "/zz", "value": 3}], {"a": 1, "list": [1, 2], "zz": 3}),
        ([{"op": "add", "path": "/zz"}], {"a": 1, "list": [1, 2], "zz": None}),
        ([{"op": "test", "path": "/zz", "value": None}], {"a": 1, "list": [1, 2]}),
        ([{"op": "test", "path": "/zz"}], {"a": 1, "list": [1, 2]}),
        ([{"op": "add", "path": "/list/-1", "value": 3}], {"a": 1, "list": [1, 2, 3]}),
        ([{"op": "remove", "path": "/list/-1"}], {"a": 1, "list": [1]}),
        ([{"op": "replace", "path": "/list/-2", "value": 0}], {"a": 1, "list": [0, 2]}),
        ([{"op": "add", "path": "/list/00", "value": 0}], {"a": 1, "list": [0, 1, 2]}),
        ([{"op": "copy", "from": "/a", "path": "/list/-1"}], {"a": 1, "list": [1, 2, 1]}),
        ([{"op": "copy", "from": "/zz", "path": "/b"}], {"a": 1, "b": None, "list": [1, 2]}),
    ],
    ids=repr,
)
def test_json_patch_takes_what_upstream_takes(patch: Any, found: Any) -> None:
    assert apply_json_patch({"a": 1, "list": [1, 2]}, patch) == found


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({}, 400),
        ("x", 400),
        (["x"], 400),
        ([{"op": "add", "path": "/a", "value": 1}] * (OPERATIONS_LIMIT + 1), 413),
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "test", "path": "/a", "value": True}], 422),
        ([{"op": "test", "path": "/zz", "value": 1}], 422),
        ([{"op": "test", "value": 1}], 422),
        ([{"op": "remove", "path": "/zz"}], 422),
        ([{"op": "replace", "path": "/zz/y", "value": 1}], 422),
        ([{"op": "replace", "path": "/list/0", "value": 1}], 422),
        ([{"op": "remove", "path": "/list/-1"}], 422),
        ([{"op": "add", "path": "/list/7", "value": 1}], 422),
        ([{"op": "add", "path": "/a/b", "value": 1}], 422),
        ([{"op": "add", "path": "nope", "value": 1}], 422),
        ([{"op": "add", "path": 7, "value": 1}], 422),
        ([{"op": "explode", "path": "/a"}], 422),
        ([{"path": "/a"}], 422),
        ([{"op": "copy", "path": "/x"}], 422),
        ([{"op": "copy", "from": "/zz/y", "path": "/x"}], 422),
        ([{"op": "copy", "from": "/list/0", "path": "/x"}], 422),
        ([{"op": "replace", "path": "", "value": 1}], 422),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_json_patch_refusals(patch: Any, code: int) -> None:
    with pytest.raises(KubeError) as caught:
        apply_json_patch({"a": 1, "list": []}, patch)
    assert caught.value.http == code
    assert "\n" not in str(caught.value)


def test_copies_cannot_grow_without_end() -> None:
    double = [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "copy", "from": "/b", "path": "/a/-"}]
    with pytest.raises(KubeError, match=str(COPY_LIMIT)) as caught:
        apply_json_patch({"a": ["x" * 1000]}, double * 50)
    assert caught.value.http == 413


@given(
    documents,
    st.lists(st.dictionaries(st.sampled_from(["op", "path", "from", "value"]), values, max_size=4), max_size=3),
)
def test_any_json_patch_applies_or_is_refused(document: Json, patch: Any) -> None:
    try:
        apply_json_patch(document, patch)
    except KubeError as error:
        assert error.http in (400, 422)  # noqa: PT017 # both outcomes are fine


def test_bodies() -> None:
    assert decode_body(b'{"a":1}') == {"a": 1}
    deep = b"[" * 5000 + b"]" * 5000
    for body in (b"", b"{", b"[1,", b'{"a":\xff}', deep, b"[" * 300 + b"]" * 300):
        with pytest.raises(KubeError) as caught:
            decode_body(body)
        assert caught.value.http == 400


def test_true_is_not_one() -> None:
    assert same_json(1, 1.0)
    assert not same_json({"a": [True]}, {"a": [1]})
    assert not same_json({"a": 1}, {"b": 1})
    assert same_json(msgspec.json.decode(b'{"a":[1,null]}'), {"a": [1, None]})
