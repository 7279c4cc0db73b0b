"""What is said of labels, annotations, owners and finalizers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.writes.metadata import common_causes, finalizer_name_causes
from protocols.kube.names import QUALIFIED_TEXT, VALUE_TEXT

OWNER = {"apiVersion": "apps/v1", "kind": "A", "name": "a", "uid": "u"}


def faults(**metadata: Any) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in common_causes(metadata, "metadata")]


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"labels": {"a b": "c"}}, f'metadata.labels: Invalid value: "a b": {QUALIFIED_TEXT}'),
        ({"labels": {"a": "-"}}, f'metadata.labels: Invalid value: "-": {VALUE_TEXT}'),
        ({"labels": {"a": "b" * 64}}, "must be no more than 63 bytes"),
        ({"labels": {"a/b/c": ""}}, 'metadata.labels: Invalid value: "a/b/c": a valid label key must consist of'),
        ({"annotations": {"A B": "c"}}, f'metadata.annotations: Invalid value: "A B": {QUALIFIED_TEXT}'),
        ({"annotations": {"a": "x" * 262144}}, "metadata.annotations: Too long: may not be more than 262144 bytes"),
        (
            {"ownerReferences": [{**OWNER, "uid": ""}]},
            "metadata.ownerReferences[0].uid: Required value: must not be empty",
        ),
        ({"ownerReferences": [{**OWNER, "apiVersion": "a/b/c"}]}, "must be <group>/<version> or <version>"),
        (
            {"ownerReferences": [{**OWNER, "apiVersion": "v1", "kind": "Event"}]},
            "/v1, Kind=Event is disallowed from being",
        ),
        (
            {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "name": "b", "controller": True}]},
            'Only one reference can have Controller set to true. Found "true" in references for A/a and A/b',
        ),
    ],
)
def test_what_is_refused(metadata: dict[str, Any], told: str) -> None:
    [fault] = faults(**metadata)
    assert told in fault


def test_what_is_sound() -> None:
    sound = {"labels": {"example.com/A_b.c": "", "x": "Y.z"}, "annotations": {"Example.com/X": "x" * 262130}}
    assert faults(**sound, ownerReferences=[OWNER, {**OWNER, "controller": True}]) == []
    assert finalizer_name_causes(["orphan", "example.com/x"], "f") == []


def test_finalizers() -> None:
    [cause] = finalizer_name_causes(["A b"], "metadata.finalizers")
    assert cause.message == f'Invalid value: "A b": {QUALIFIED_TEXT}'
    [cause] = finalizer_name_causes(["orphan", "foregroundDeletion"], "f")
    assert cause.message.endswith("finalizer orphan and foregroundDeletion cannot be both set")


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4))
def test_any_texts_are_judged(texts: dict[str, str]) -> None:
    for cause in common_causes({"labels": texts, "annotations": texts}, "m"):
        assert cause.field in ("m.labels", "m.annotations")
        assert "\n" not in cause.message
