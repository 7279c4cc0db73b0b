"""batch/v1: defaults, generated selectors, validation of specs and statuses, schedules, as upstream's."""

from typing import Any

import pytest

from protocols.kinds.batch.cron_jobs import schedule_fault, zone_faults
from tests.support.workloads import (
    CRON,
    JOB,
    LABELS,
    TEMPLATE,
    UID,
    Object,
    create_faults,
    created,
    status_faults,
    update_faults,
    with_path,
)

OWN = {
    "batch.kubernetes.io/controller-uid": UID,
    "batch.kubernetes.io/job-name": "x",
    "controller-uid": UID,
    "job-name": "x",
}
INDEXED = {**JOB, "completionMode": "Indexed", "completions": 5}
RULE = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}


def test_job_defaults_equal_upstream() -> None:
    made = created("jobs", JOB)
    spec = dict(made["spec"])
    assert spec.pop("template")["metadata"]["labels"] == made["metadata"]["labels"] == OWN
    assert spec == {
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "completions": 1,
        "manualSelector": False,
        "parallelism": 1,
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}},
        "suspend": False,
    }
    assert made["status"] == {}
    assert not create_faults("jobs", JOB)


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"parallelism": 3}, "completions", None),
        ({"completions": 3}, "parallelism", 1),
        ({"backoffLimitPerIndex": 1}, "backoffLimit", 2**31 - 1),
        ({"podFailurePolicy": {"rules": [RULE]}}, "podReplacementPolicy", "Failed"),
    ],
)
def test_job_defaults_depend_on_other_fields(given: Object, field: str, value: Any) -> None:
    assert created("jobs", {**JOB, **given})["spec"].get(field) == value


def test_failure_pattern_has_the_status_true() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    made = created("jobs", {**JOB, "podFailurePolicy": {"rules": [rule]}})
    assert made["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"] == "True"


def test_labels_of_a_job_are_its_own_where_it_has_some() -> None:
    assert created("jobs", JOB, labels={"a": "b"})["metadata"]["labels"] == {"a": "b"}
    labelled = with_path(JOB, "template.metadata.labels", LABELS)
    assert created("jobs", labelled)["metadata"]["labels"] == {**OWN, **LABELS}


def test_labels_that_contradict_the_generated_ones_are_rejected() -> None:
    path = "spec.template.metadata.labels[job-name]"
    found = create_faults("jobs", with_path(JOB, "template.metadata.labels", {"job-name": "y"}))
    assert [fault.partition(": ")[0] for fault in found] == [path]
    assert found[0].endswith("must be 'x'")
    other = create_faults("jobs", {**JOB, "selector": {"matchLabels": {"a": "b"}}})
    assert any("`selector` not auto-generated" in fault for fault in other)


def test_manual_selector_generates_nothing() -> None:
    spec = {"manualSelector": True, **JOB, "selector": {"matchLabels": LABELS}}
    spec = with_path(spec, "template.metadata.labels", LABELS)
    assert created("jobs", spec)["spec"]["template"]["metadata"]["labels"] == LABELS
    assert not create_faults("jobs", spec)
    missing = [fault.partition(": ")[0] for fault in create_faults("jobs", {"manualSelector": True, **JOB})]
    assert missing == ["spec.selector", "spec.template.metadata.labels"]


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        ("template.spec.restartPolicy", None, 'Required value: valid values: "OnFailure", "Never"'),
        ("parallelism", -1, "Invalid value: -1: must be greater than or equal to 0"),
        ("ttlSecondsAfterFinished", -1, "Invalid value: -1: must be greater than or equal to 0"),
        ("backoffLimitPerIndex", 1, "Invalid value: 1: requires indexed completion mode"),
        ("completionMode", "A", 'Unsupported value: "A": supported values: "NonIndexed", "Indexed"'),
        ("podReplacementPolicy", "A", 'Unsupported value: "A": supported values: "Failed", "TerminatingOrFailed"'),
        ("managedBy", "me", 'Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")'),
        ("managedBy", "a.io/" + "b" * 60, "Too long: may not be more than 63 bytes"),
        ("successPolicy", {"rules": []}, 'Invalid value: {"rules":[]}: requires indexed completion mode'),
    ],
)
def test_job_field_is_rejected(path: str, value: Any, fault: str) -> None:
    assert create_faults("jobs", with_path(JOB, path, value)) == [f"spec.{path}: {fault}"]


MANY = "when completions are above 100000 and used with backoff limit per index"


@pytest.mark.parametrize(
    ("given", "faults"),
    [
        ({}, []),
        ({"completions": None}, ["completions: Required value: when completion mode is Indexed"]),
        ({"maxFailedIndexes": 1}, ["backoffLimitPerIndex: Required value: when maxFailedIndexes is specified"]),
        (
            {"maxFailedIndexes": 6, "backoffLimitPerIndex": 1},
            ["maxFailedIndexes: Invalid value: 6: must be less than or equal to completions"],
        ),
        (
            {"completions": 200_000, "backoffLimitPerIndex": 1, "parallelism": 10_001},
            [
                "maxFailedIndexes: Required value: must be specified when completions is above 100000",
                f"parallelism: Invalid value: 10001: must be less than or equal to 10000 {MANY}",
            ],
        ),
    ],
)
def test_indexed_job_bounds(given: Object, faults: list[str]) -> None:
    spec = {key: value for key, value in {"parallelism": 1, **INDEXED, **given}.items() if value is not None}
    assert create_faults("jobs", spec) == [f"spec.{fault}" for fault in faults]


def test_indexed_job_name_leaves_room_for_its_pods() -> None:
    found = create_faults("jobs", INDEXED, name="x" * 62)
    assert found == [
        f'metadata.name: Invalid value: "{"x" * 62}": will not able to create pod with invalid DNS label: {"x" * 62}-4'
    ]


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ({"action": "FailJob"}, ": Invalid value: specifying one of OnExitCodes and OnPodConditions is required"),
        ({**RULE, "action": ""}, '.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]'),
        (
            {**RULE, "action": "FailIndex"},
            '.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set',
        ),
        (
            {**RULE, "onExitCodes": {"operator": "In", "values": [0, 1]}},
            ".onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
        ),
        (
            {**RULE, "onExitCodes": {"operator": "NotIn", "values": [2, 1]}},
            ".onExitCodes.values: Invalid value: [2,1]: must be ordered",
        ),
        (
            {**RULE, "onExitCodes": {"operator": "In", "values": [1], "containerName": "d"}},
            '.onExitCodes.containerName: Invalid value: "d": must be one of the container or initContainer names in '
            "the pod template",
        ),
        (
            {**RULE, "onPodConditions": [{"type": "A"}]},
            ": Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
        ),
    ],
)  # fmt: skip
def test_failure_rule_is_rejected(rule: Object, fault: str) -> None:
    found = create_faults("jobs", {**JOB, "podFailurePolicy": {"rules": [rule]}})
    assert found == [f"spec.podFailurePolicy.rules[0]{fault}"]


LIST, PARSING = ".succeededIndexes: Invalid value:", "error parsing succeededIndexes:"
TOO_MANY = "must be less than or equal to 5"


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ({"succeededIndexes": "0-2,4", "succeededCount": 4}, ""),
        ({}, ": Required value: at least one of succeededCount or succeededIndexes must be specified"),
        ({"succeededIndexes": "0-5"}, f'{LIST} "0-5": {PARSING} too large index: "5"'),
        ({"succeededIndexes": "3,1"}, f'{LIST} "3,1": {PARSING} non-increasing order, previous: 3, current: 1'),
        ({"succeededCount": 6}, f".succeededCount: Invalid value: 6: {TOO_MANY} (the number of specified completions)"),
    ],
)
def test_success_rule(rule: Object, fault: str) -> None:
    found = create_faults("jobs", {**INDEXED, "successPolicy": {"rules": [rule]}})
    assert found == ([f"spec.successPolicy.rules[0]{fault}"] if fault else [])


@pytest.mark.parametrize(
    ("path", "value", "faults"),
    [
        ("parallelism", 5, []),
        ("suspend", True, []),
        ("ttlSecondsAfterFinished", 5, []),
        ("completions", 5, ["spec.completions"]),
        ("completionMode", "Indexed", ["spec.completionMode"]),
        ("backoffLimit", 1, []),
        ("managedBy", "a.io/b", ["spec.managedBy"]),
        ("template.spec.nodeSelector", {"a": "b"}, ["spec.template"]),
    ],
)
def test_job_update(path: str, value: Any, faults: list[str]) -> None:
    old = created("jobs", JOB)
    found = update_faults("jobs", with_path(old, f"spec.{path}", value), old)
    assert [fault.partition(": ")[0] for fault in found] == faults
    assert all("field is immutable" in fault for fault in found)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("nodeSelector", {"a": "b"}),
        ("tolerations", [{"operator": "Exists"}]),
        ("schedulingGates", [{"name": "a.io/g"}]),
        ("affinity", {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}),
    ],
)  # fmt: skip
def test_suspended_job_may_be_scheduled_otherwise(path: str, value: Any) -> None:
    old = created("jobs", {**JOB, "suspend": True})
    new = with_path(old, f"spec.template.spec.{path}", value)
    assert update_faults("jobs", new, old) == []
    assert update_faults("jobs", old, new) == []
    started = with_path(old, "status.startTime", "2026-01-01T00:00:00Z")
    assert len(update_faults("jobs", new, started)) == 1


def test_elastic_job_changes_both_its_numbers() -> None:
    old = created("jobs", INDEXED)
    both = with_path(with_path(old, "spec.completions", 3), "spec.parallelism", 3)
    assert update_faults("jobs", both, old) == []
    text = "can only be modified in tandem with spec.parallelism"
    assert update_faults("jobs", with_path(old, "spec.completions", 3), old) == [
        f"spec.completions: Invalid value: 3: {text}"
    ]


def condition(kind: str) -> Object:
    return {"type": kind, "status": "True"}


START, END = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
MET, DONE = condition("SuccessCriteriaMet"), condition("Complete")
CONDITIONS = "conditions: Invalid value: cannot set"


@pytest.mark.parametrize(
    ("before", "after", "faults"),
    [
        ({}, {"active": 1, "ready": 1}, []),
        ({}, {"ready": 1}, ["ready: Invalid value: 1: cannot set more ready pods than active"]),
        ({}, {"startTime": START, "completionTime": END, "conditions": [MET, DONE]}, []),
        (
            {},
            {"startTime": START, "completionTime": END, "conditions": [DONE]},
            [f"{CONDITIONS} Complete=True condition without the SuccessCriteriaMet=true condition"],
        ),
        (
            {},
            {"startTime": START, "conditions": [condition("Failed")]},
            [f"{CONDITIONS} Failed=True condition without the FailureTarget=true condition"],
        ),
        (
            {},
            {"startTime": START, "active": 1, "conditions": [condition("Failed"), condition("FailureTarget")]},
            ["active: Invalid value: 1: active>0 is invalid for finished job"],
        ),
        ({"failed": 2}, {"failed": 1}, ["failed: Invalid value: 1: cannot decrease the failed counter"]),
        ({"startTime": START}, {}, ["startTime: Invalid value: null: field is immutable for unsuspended job once set"]),
        (
            {},
            {"startTime": START, "conditions": [MET, DONE]},
            ["completionTime: Required value: completionTime is required for Complete jobs"],
        ),
        (
            {"startTime": START, "completionTime": END, "conditions": [MET, DONE]},
            {"startTime": START, "completionTime": END, "conditions": [MET]},
            [
                "conditions: Invalid value: cannot disable the terminal Complete=True condition",
            ],
        ),
        (
            {},
            {"completedIndexes": "1"},
            [
                'completedIndexes: Invalid value: "1": error parsing completedIndexes: too large index: "1"',
                'completedIndexes: Invalid value: "1": cannot set non-empty completedIndexes when non-indexed '
                "completion mode",
            ],
        ),
        (
            {},
            {"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a"]}},
            ['uncountedTerminatedPods.failed[0]: Duplicate value: "a"'],
        ),
    ],
)  # fmt: skip
def test_job_status(before: Object, after: Object, faults: list[str]) -> None:
    old = {**created("jobs", JOB), "status": before}
    found = status_faults("jobs", {**old, "status": after}, old)
    assert [fault.removeprefix("status.") for fault in found if "completionTime when" not in fault] == faults


def test_failed_and_completed_indexes_do_not_overlap() -> None:
    old = created("jobs", {**INDEXED, "backoffLimitPerIndex": 1})
    found = status_faults("jobs", {**old, "status": {"completedIndexes": "0-2,4", "failedIndexes": "2-3"}}, old)
    text = "failedIndexes and completedIndexes overlap at index: 2"
    assert found == [f'status.failedIndexes: Invalid value: "2-3": {text}']


def test_cron_job_defaults_equal_upstream() -> None:
    spec = dict(created("cronjobs", CRON)["spec"])
    made = spec.pop("jobTemplate")["spec"]
    assert spec == {
        "concurrencyPolicy": "Allow",
        "failedJobsHistoryLimit": 1,
        "schedule": "0 * * * *",
        "successfulJobsHistoryLimit": 3,
        "suspend": False,
    }
    assert list(made) == ["template"]
    assert made["template"]["spec"]["schedulerName"] == "default-scheduler"
    assert not create_faults("cronjobs", CRON)


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        ("schedule", None, "Required value"),
        ("schedule", "* *", 'Invalid value: "* *": expected exactly 5 fields, found 2: [* *]'),
        ("timeZone", "Local", f'Invalid value: "Local": {zone_faults("Local")[0]}'),
        ("timeZone", "../a", 'Invalid value: "../a": unknown time zone ../a'),
        ("timeZone", "", 'Invalid value: "": timeZone must be nil or non-empty string'),
        ("concurrencyPolicy", "A", 'Unsupported value: "A": supported values: "Allow", "Forbid", "Replace"'),
        ("startingDeadlineSeconds", -1, "Invalid value: -1: must be greater than or equal to 0"),
        ("jobTemplate.spec.manualSelector", True, 'Unsupported value: true: supported values: "nil", "false"'),
        ("jobTemplate.spec.selector", {}, "Invalid value: {}: `selector` will be auto-generated"),
    ],
)
def test_cron_job_field_is_rejected(path: str, value: Any, fault: str) -> None:
    assert create_faults("cronjobs", with_path(CRON, path, value)) == [f"spec.{path}: {fault}"]


def test_cron_job_template_has_the_rules_of_a_job() -> None:
    found = create_faults("cronjobs", with_path(CRON, "jobTemplate.spec.template", TEMPLATE))
    path = "spec.jobTemplate.spec.template.spec.restartPolicy"
    assert found == [f'{path}: Required value: valid values: "OnFailure", "Never"']


def test_cron_job_name_leaves_room_for_its_jobs_on_create_only() -> None:
    name = "x" * 53
    text = "must be no more than 52 characters"
    assert create_faults("cronjobs", CRON, name=name) == [f'metadata.name: Invalid value: "{name}": {text}']
    old = created("cronjobs", CRON, name=name)
    assert update_faults("cronjobs", old, old) == []


def test_schedule_with_a_zone_is_accepted_only_where_it_was_before() -> None:
    old = created("cronjobs", {**CRON, "schedule": "TZ=UTC 0 * * * *"})
    assert len(create_faults("cronjobs", old["spec"])) == 1
    assert update_faults("cronjobs", old, old) == []
    both = with_path(old, "spec.timeZone", "UTC")
    assert "cannot use both timeZone field" in update_faults("cronjobs", both, old)[0]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("*/5 0-6,12 1,15 jan-Mar MON-fri", ""),
        ("@hourly", ""),
        ("@every 1h30m", ""),
        ("? * ? * *", ""),
        ("5/15 * * * *", ""),
        ("", "empty spec string"),
        ("@never", "unrecognized descriptor: @never"),
        ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/1/2 * * * *", "too many slashes: */1/2"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
    ],
)
def test_schedule(text: str, fault: str) -> None:
    assert schedule_fault(text) == fault
