"""Priority admission, and the classes of the system. Texts are kube-apiserver 1.36's."""

from typing import Any

import pytest

from actors.apiserver.writes.admission.priority import apply_priority, default_class, second_default
from protocols.kinds.cluster.priority_classes import PRIORITIES, system_classes
from protocols.kube.meta import Object

COMPUTED = "must not be provided in pod spec; priority admission controller computed"


def pod(**spec: Any) -> Object:
    return {"metadata": {"name": "p"}, "spec": spec}


def priority_class(name: str, value: int, **fields: Any) -> Object:
    return {"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority", **fields}


def test_pod_of_a_class_gets_its_value_and_policy() -> None:
    new = pod(priorityClassName="high")
    assert apply_priority(new, priority_class("high", 1000, preemptionPolicy="Never")) == ""
    assert new["spec"] == {"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"}


def test_pod_without_a_class_gets_the_global_default_or_zero() -> None:
    classes = [priority_class("b", 7, globalDefault=True), priority_class("a", 3, globalDefault=True)]
    assert apply_priority(new := pod(), default_class(classes)) == ""
    assert (new["spec"]["priorityClassName"], new["spec"]["priority"]) == ("a", 3)
    assert apply_priority(new := pod(), default_class([])) == ""
    assert new["spec"] == {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}


@pytest.mark.parametrize(
    ("spec", "found", "fault"),
    [
        ({"priorityClassName": "no"}, None, "no PriorityClass with name no was found"),
        (
            {"priorityClassName": "high", "priority": 9},
            priority_class("high", 1000),
            f"the integer value of priority (9) {COMPUTED} 1000 from the given PriorityClass name",
        ),
        (
            {"priorityClassName": "high", "preemptionPolicy": "Never"},
            priority_class("high", 1000),
            f"the string value of PreemptionPolicy (Never) {COMPUTED} PreemptLowerPriority from the given "
            "PriorityClass name",
        ),
        (
            {"preemptionPolicy": ""},
            None,
            f"the string value of PreemptionPolicy () {COMPUTED} PreemptLowerPriority from the given "
            "PriorityClass name",
        ),
        ({"priorityClassName": "high", "priority": 1000}, priority_class("high", 1000), ""),
    ],
)
def test_pod_that_contradicts_its_class_is_rejected(spec: Object, found: Object | None, fault: str) -> None:
    assert apply_priority(pod(**spec), found) == fault


def test_second_global_default_is_rejected_but_the_first_may_change() -> None:
    first = priority_class("a", 1, globalDefault=True)
    text = "PriorityClass a is already marked as default. Only one default can exist"
    assert second_default(priority_class("b", 2, globalDefault=True), [first], creating=True) == text
    assert second_default(first, [first], creating=False) == ""
    assert second_default(priority_class("b", 2), [first], creating=True) == ""


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("system-node-critical", 2_000_001_000, None),
        ("system-node-critical", 1, "metadata.name"),
        ("system-other", 1, "metadata.name"),
        ("mine", 1_000_000_001, "value"),
    ],
)
def test_class_with_the_systems_prefix_is_valid_only_as_the_systems_own(name: str, value: int, field: str) -> None:
    causes = PRIORITIES.strategy.validate_create(priority_class(name, value))
    assert [cause.field for cause in causes] == ([field] if field else [])


def test_system_classes_are_valid_and_cannot_be_deleted() -> None:
    for each in system_classes():
        PRIORITIES.strategy.default(each)
        assert PRIORITIES.strategy.validate_create(each) == []
        assert PRIORITIES.strategy.protected(each) == "this is a system priority class and cannot be deleted"
