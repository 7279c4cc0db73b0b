"""What is said of labels, annotations, owners and finalizers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.api.errors import BadRequest, Conflict, Invalid
from actors.apiserver.api.request.target import Target
from actors.apiserver.writes.delete import check_preconditions, delete_options
from actors.apiserver.writes.metadata import carry_over, check_body, duplicate_owners, stamp_new
from actors.apiserver.writes.ownership.entries import Author, tracked
from protocols.kinds.core.config import CONFIGMAPS
from protocols.kinds.served.object_meta import common_causes, finalizer_name_causes, metadata_causes
from protocols.kube.names import QUALIFIED_TEXT, VALUE_TEXT
from tests.support.dra_rows import row

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
            'metadata.ownerReferences.uid: Invalid value: "": uid must not be empty',
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


def test_finalizer_causes_of_a_built_in_kind_require_a_qualified_name() -> None:
    [cause] = finalizer_name_causes(["kubernetes", "example.com/x", "keep"], "metadata.finalizers", custom=False)
    assert cause.field == "metadata.finalizers[2]"


@pytest.mark.parametrize(
    ("base", "good"), [("web-", True), ("web.", False), ("-", False), ("a_", False), ("x" * 254, False)]
)
def test_metadata_causes_judge_the_base_of_a_name(base: str, good: bool) -> None:
    causes = metadata_causes({"metadata": {"name": "web-x7c2k", "generateName": base}}, CONFIGMAPS)
    assert [cause.field for cause in causes] == ([] if good else ["metadata.generateName"])
    assert not metadata_causes({"metadata": {"name": "web-x7c2k", "generateName": base}}, row("deviceclasses"))


def test_check_body_drops_repeated_owners() -> None:
    body = {"metadata": {"name": "a", "ownerReferences": [dict(OWNER), dict(OWNER), {**OWNER, "uid": "v"}]}}
    (warning,) = duplicate_owners(body)
    assert warning.endswith("duplicate UID(s) observed: u")
    check_body(body, Target(CONFIGMAPS, "create", "ns"))
    assert body["metadata"]["ownerReferences"] == [OWNER, {**OWNER, "uid": "v"}]
    assert duplicate_owners(body) == []


def test_stamp_new_negative_generation_is_invalid() -> None:
    with pytest.raises(Invalid, match="must be greater than or equal to 0"):
        stamp_new({"metadata": {"name": "a", "generation": -1}}, CONFIGMAPS)


@pytest.mark.parametrize("field", ["deletionTimestamp", "deletionGracePeriodSeconds"])
def test_carry_over_field_of_the_deletion_is_immutable(field: str) -> None:
    [cause] = carry_over({"metadata": {"name": "a", field: 5}}, {"metadata": {"name": "a"}})
    assert cause.field == f"metadata.{field}"


def test_delete_options_of_the_query_hold_preconditions() -> None:
    options = delete_options({}, {"uid": "u", "resourceVersion": "5"}, [])
    assert (options.uid, options.version) == ("u", "5")
    with pytest.raises(Conflict, match="the UID in the precondition"):
        check_preconditions(Target(CONFIGMAPS, "delete", "ns", "a"), options, {"metadata": {"uid": "v"}})
    assert delete_options({"preconditions": {"uid": ""}}, {}, []).uid == "", "an empty uid is a precondition, too"


def test_sent_entries_time_stays_when_a_write_takes_no_field() -> None:
    shape = CONFIGMAPS.shape
    assert shape is not None
    author = Author("m", "Update", "v1")
    old = {"metadata": {}, "data": {"a": "1", "b": "2"}}
    entries = [author.entry({"f:data": {".": {}, "f:a": {}, "f:b": {}}}, "2020-01-01T00:00:00Z")]
    [less] = tracked(old, {"metadata": {}, "data": {"a": "1"}}, shape, author, entries)
    assert (less["time"], less["fieldsV1"]) == ("2020-01-01T00:00:00Z", {"f:data": {".": {}, "f:a": {}}})


def test_carry_over_name_base_is_that_of_the_update() -> None:
    old = {"metadata": {"uid": "u", "generateName": "a-"}}
    new = {"metadata": {"generateName": "b-"}}
    assert carry_over(new, old) == []
    assert new["metadata"] == {"uid": "u", "generateName": "b-"}


def test_stamp_new_any_resource_version_is_rejected() -> None:
    with pytest.raises(BadRequest, match="should not be set"):
        stamp_new({"metadata": {"resourceVersion": "1" * 6000}}, CONFIGMAPS)
    stamp_new({"metadata": {"resourceVersion": "00"}}, CONFIGMAPS)
