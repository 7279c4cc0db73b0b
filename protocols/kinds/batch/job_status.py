"""Validate the status of a job: what holds at once, and what may follow. Messages equal upstream's.

A rule is checked only if a field that it names has changed, so that a status which already breaks it can be mended.
"""

from protocols.kinds.batch.job_policies import IndexesInvalid, index_intervals, omitted
from protocols.kinds.check.causes import invalid, required
from protocols.kinds.check.table import Causes, causes_of, once
from protocols.kinds.workloads.columns import has_condition
from protocols.kinds.workloads.rules import status_check
from protocols.kube.meta import Object
from protocols.kube.objects import at
from protocols.kube.times import parse_time

COUNTS = status_check(("active", "succeeded", "failed", "ready", "terminating"))
COMPLETE, FAILED, TARGET, MET = "Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"
KINDS = (COMPLETE, FAILED, TARGET, MET)
PATH = "status"
EXCLUSIVE = ((COMPLETE, FAILED), (COMPLETE, TARGET))
NEEDED = ((FAILED, TARGET), (COMPLETE, MET))
ALWAYS_EXCLUSIVE = ((MET, FAILED), (MET, TARGET))


def job_status_causes(new: Object, old: Object) -> Causes:
    """Check a write of a job's status against the stored object."""
    status, before = new.get(PATH) or {}, old.get(PATH) or {}
    changed = {field for field in {*status, *before} if status.get(field) != before.get(field)}
    changed |= {kind for kind in KINDS if has_condition(new, kind) != has_condition(old, kind)}
    causes = causes_of(COUNTS, "", new) + _uncounted_causes(status)
    causes += _condition_causes(new, changed) + _finished_causes(new, status, changed)
    causes += _time_causes(new, status, changed) + _index_causes(new, status, changed)
    ready = status.get("ready")
    if ready is not None and {"ready", "active"} & changed and ready > (status.get("active") or 0):
        causes.append(invalid(f"{PATH}.ready", ready, "cannot set more ready pods than active"))
    return causes + _transition_causes(new, old)


def _uncounted_causes(status: Object) -> Causes:
    causes: Causes = []
    is_new = once()
    for side in ("succeeded", "failed"):
        for index, uid in enumerate((status.get("uncountedTerminatedPods") or {}).get(side) or ()):
            path = f"{PATH}.uncountedTerminatedPods.{side}[{index}]"
            if not uid:
                causes.append(invalid(path, uid, "must not be empty"))
            else:
                is_new(path, uid, causes)
    return causes


def _condition_causes(job: Object, changed: set[str]) -> Causes:
    held = {kind for kind in KINDS if has_condition(job, kind)}
    texts = []
    for kind, other in EXCLUSIVE:
        if {kind, other} <= held and {kind, other} & changed:
            texts.append(f"cannot set {kind}=True and {other}=true conditions")
    for kind, other in NEEDED:
        if kind in held and other not in held and {kind, other} & changed:
            texts.append(f"cannot set {kind}=True condition without the {other}=true condition")
    both = [(kind, other) for kind, other in ALWAYS_EXCLUSIVE if {kind, other} <= held]
    texts += [f"cannot set {kind}=True and {other}=true conditions" for kind, other in both]
    if at(job, "spec", "successPolicy") is not None and MET not in held and COMPLETE in held:
        texts.append("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
    return [omitted(f"{PATH}.conditions", text) for text in texts]


def _finished_causes(job: Object, status: Object, changed: set[str]) -> Causes:
    if not (has_condition(job, COMPLETE) or has_condition(job, FAILED)):
        return []
    finished = bool({COMPLETE, FAILED} & changed)
    causes: Causes = []
    for field in ("active", "terminating"):
        if (number := status.get(field) or 0) > 0 and (finished or field in changed):
            causes.append(invalid(f"{PATH}.{field}", number, f"{field}>0 is invalid for finished job"))
    if not status.get("startTime") and (finished or "startTime" in changed):
        causes.append(required(f"{PATH}.startTime", "startTime is required for finished job"))
    waiting = status.get("uncountedTerminatedPods") or {}
    if any(waiting.values()) and (finished or "uncountedTerminatedPods" in changed):
        text = "uncountedTerminatedPods needs to be empty for finished job"
        causes.append(invalid(f"{PATH}.uncountedTerminatedPods", waiting, text))
    return causes


def _time_causes(job: Object, status: Object, changed: set[str]) -> Causes:
    start, end, path = status.get("startTime"), status.get("completionTime"), f"{PATH}.completionTime"
    causes: Causes = []
    if {COMPLETE, "completionTime"} & changed:
        complete = has_condition(job, COMPLETE)
        if end and not complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            causes.append(invalid(path, end, text))
        if complete and not end:
            causes.append(required(path, "completionTime is required for Complete jobs"))
    if start and end and {"startTime", "completionTime"} & changed and parse_time(end) < parse_time(start):
        causes.append(invalid(path, end, "completionTime cannot be set before startTime"))
    return causes


def _index_causes(job: Object, status: Object, changed: set[str]) -> Causes:
    spec = job.get("spec") or {}
    completions, limit = spec.get("completions"), spec.get("backoffLimitPerIndex")
    done, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    lists: dict[str, list[tuple[int, int]]] = {}
    causes: Causes = []
    for field, text, checked in (
        ("completedIndexes", done, completions is not None),
        ("failedIndexes", failed or "", completions is not None and limit is not None),
    ):
        try:
            lists[field] = index_intervals(text, completions or 0) if checked else []
        except IndexesInvalid as error:
            if field in changed:
                causes.append(invalid(f"{PATH}.{field}", text, f"error parsing {field}: {error}"))
    if done and "completedIndexes" in changed and spec.get("completionMode") != "Indexed":
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        causes.append(invalid(f"{PATH}.completedIndexes", done, text))
    if failed is not None and "failedIndexes" in changed and limit is None:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        causes.append(invalid(f"{PATH}.failedIndexes", failed, text))
    both = _overlap(lists.get("completedIndexes", []), lists.get("failedIndexes", []))
    if both is not None and {"completedIndexes", "failedIndexes"} & changed:
        text = f"failedIndexes and completedIndexes overlap at index: {both}"
        causes.append(invalid(f"{PATH}.failedIndexes", failed, text))
    return causes


def _overlap(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> int | None:
    """Return the first common index of two sorted lists of intervals."""
    a = b = 0
    while a < len(left) and b < len(right):
        if left[a][0] <= right[b][1] and right[b][0] <= left[a][1]:
            return max(left[a][0], right[b][0])
        if left[a][0] <= right[b][0]:
            a += 1
        else:
            b += 1
    return None


def _transition_causes(new: Object, old: Object) -> Causes:
    causes: Causes = []
    for kind in (FAILED, COMPLETE, TARGET):
        if has_condition(old, kind) and not has_condition(new, kind):
            causes.append(omitted(f"{PATH}.conditions", f"cannot disable the terminal {kind}=True condition"))
    spec, status, before = new.get("spec") or {}, new.get(PATH) or {}, old.get(PATH) or {}
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for field in ("failed",) if elastic else ("failed", "succeeded"):
        if (status.get(field) or 0) < (before.get(field) or 0):
            causes.append(invalid(f"{PATH}.{field}", status.get(field) or 0, f"cannot decrease the {field} counter"))
    end = status.get("completionTime")
    if end and before.get("completionTime") and end != before["completionTime"]:
        causes.append(invalid(f"{PATH}.completionTime", end, "completionTime cannot be mutated"))
    if before.get("startTime") and status.get("startTime") != before["startTime"] and not spec.get("suspend"):
        text = "field is immutable for unsuspended job once set"
        causes.append(invalid(f"{PATH}.startTime", status.get("startTime"), text))
    if has_condition(old, MET) and not has_condition(new, MET):
        causes.append(omitted(f"{PATH}.conditions", "cannot disable the SuccessCriteriaMet=True condition"))
    if has_condition(old, COMPLETE) and not has_condition(old, MET) and has_condition(new, MET):
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        causes.append(omitted(f"{PATH}.conditions", text))
    return causes
