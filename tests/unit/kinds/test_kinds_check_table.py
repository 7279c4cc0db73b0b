"""Tables of checks: order, absent fields, lists with a limit, and time that grows with the size of an object."""

import time
from typing import Any

import pytest

from protocols.kinds.admission.policies import VALIDATING_BINDINGS
from protocols.kinds.admission.webhooks import VALIDATING
from protocols.kinds.check.causes import Cause, unsupported
from protocols.kinds.check.table import (
    Ordered,
    Struct,
    anything,
    at_least,
    at_most,
    causes_of,
    each,
    entries,
    faulty,
    needed,
    never,
    once,
    one_of,
    present,
    texts,
)
from protocols.kinds.cluster.certificates import RequestStrategy
from protocols.kinds.core.quotas import QuotaStrategy
from protocols.kinds.served.strategy import Strategy

MANY = 50_000
SECONDS = 3.0
"""Comparing each of MANY elements with all before it takes 20 s."""


def fields(causes: list[Cause]) -> list[str]:
    return [cause.field for cause in causes]


def test_supported_values_are_cut_in_an_error() -> None:
    assert unsupported("a", "b", ["c", "d"]).message == 'Unsupported value: "b": supported values: "c", "d"'
    assert len(unsupported("a", "b", ["c" * 1000] * 1000).message) < 11_000


def test_ordered_reports_in_the_order_of_the_table() -> None:
    table = Ordered(first=at_least(1), second=at_least(1))
    assert fields(causes_of(table, "spec", {"second": 0, "first": 0})) == ["spec.first", "spec.second"]


def test_ordered_with_empty_path_names_fields_of_the_whole_object() -> None:
    assert fields(causes_of(Ordered(count=at_least(1)), "", {"count": 0})) == ["count"]


def test_ordered_checks_absent_fields_that_it_lists() -> None:
    table = Ordered("name count=0", name=needed(anything, "name it"), count=at_least(1), other=needed(anything))
    found = causes_of(table, "spec", {})
    assert fields(found) == ["spec.name", "spec.count"]
    assert found[0].message == "Required value: name it"


def test_present_accepts_an_empty_object_and_reports_an_absent_one() -> None:
    table = Ordered("cel", cel=present(anything))
    assert not causes_of(table, "spec", {"cel": {}})
    assert fields(causes_of(table, "spec", {})) == ["spec.cel"]


def test_present_leaves_an_empty_text_to_its_check() -> None:
    table = Ordered("action", action=present(one_of("Allow", "Deny", empty=True)))
    assert [cause.reason for cause in causes_of(table, "spec", {})] == ["FieldValueRequired"]
    assert [cause.reason for cause in causes_of(table, "spec", {"action": ""})] == ["FieldValueNotSupported"]


def test_ordered_checks_an_absent_object_as_an_empty_one() -> None:
    table = Ordered("ref={}", ref=Ordered("name", name=needed(anything)))
    assert fields(causes_of(table, "spec", {})) == ["spec.ref.name"]


def test_entries_checks_keys_and_values_at_their_key() -> None:
    check = entries(texts(lambda name: ["no"] if name == "a" else []), at_least(1))
    assert fields(causes_of(check, "hard", {"a": 1, "b": 0})) == ["hard[a]", "hard[b]"]


def test_never_and_faulty_report_without_the_value() -> None:
    (cause,) = causes_of(never("not here"), "field", "value")
    assert cause.message == "Forbidden: not here"
    (cause,) = causes_of(faulty(bool, "needs to be unset"), "field", "value")
    assert cause.message == 'Invalid value: "": needs to be unset'


class Example(Strategy):
    rules = Struct(spec=Struct("size", size=at_least(1)))
    immutable = ("spec.size",)
    status_rules = Struct(status=Struct(used=at_least(0)))


def test_strategy_checks_by_the_tables_it_names() -> None:
    strategy, old = Example(), {"spec": {"size": 1}}
    assert fields(strategy.validate_create({"spec": {}})) == ["spec.size"]
    assert strategy.validate_update(old, old) == []
    assert fields(strategy.validate_update({"spec": {"size": 2}}, old)) == ["spec.size"]
    assert fields(strategy.validate_status({"status": {"used": -1}}, old)) == ["status.used"]


def test_each_over_its_limit_checks_no_element() -> None:
    check = each(at_least(1), limit=2)
    assert fields(causes_of(check, "list", [0, 0])) == ["list[0]", "list[1]"]
    assert [cause.reason for cause in causes_of(check, "list", [0, 0, 0])] == ["FieldValueTooMany"]


def test_at_most_counts_only() -> None:
    assert not causes_of(at_most(1), "list", [0])
    assert fields(causes_of(at_most(1), "list", [0, 0])) == ["list"]


def test_each_reports_a_repeated_key_at_its_field() -> None:
    check = each(anything, key=lambda value: value["name"], at=".name")
    assert fields(causes_of(check, "list", [{"name": "a"}, {"name": "a"}])) == ["list[1].name"]


def test_once_reports_a_second_time() -> None:
    check, causes = once(), list[Cause]()
    for index in range(3):
        check(f"list[{index}]", "same", causes)
    assert fields(causes) == ["list[1]", "list[2]"]


def csr_conditions(many: list[str]) -> list[Cause]:
    held = [{"type": kind, "status": "True"} for kind in many]
    return RequestStrategy().validate_status({"status": {"conditions": held}}, {})


def binding_actions(many: list[str]) -> list[Cause]:
    return VALIDATING_BINDINGS.strategy.validate_create({"spec": {"policyName": "p", "validationActions": many}})


def rule_names(many: list[str]) -> list[Cause]:
    match = {"resourceRules": [{"resourceNames": many}]}
    return VALIDATING_BINDINGS.strategy.validate_create({"spec": {"policyName": "p", "matchResources": match}})


def review_versions(many: list[str]) -> list[Cause]:
    return VALIDATING.strategy.validate_create({"webhooks": [{"name": "a.b.c", "admissionReviewVersions": many}]})


def quota_scopes(many: list[str]) -> list[Cause]:
    hard = {f"example.com/{name}": "1" for name in many}
    return QuotaStrategy().validate_create(
        {"spec": {"hard": {**hard, "services": "1"}, "scopes": ["BestEffort"] * len(many)}}
    )


@pytest.mark.parametrize("validate", [quota_scopes, csr_conditions, binding_actions, rule_names, review_versions])
def test_validation_of_a_long_list_is_linear(validate: Any) -> None:
    started = time.process_time()
    validate([f"name-{index}" for index in range(MANY)])
    assert time.process_time() - started < SECONDS
