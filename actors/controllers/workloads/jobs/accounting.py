"""Count finished pods exactly once, whenever the controller dies. Pure.

Every pod of a Job has a finalizer. A finished one is counted in three steps, each of which may be repeated:

1. Its uid is written to `status.uncountedTerminatedPods`.
2. Its finalizer is removed.
3. The uid is removed from the list and the counter incremented, in one write.

A pod with a finalizer whose uid is not listed is not counted yet, one without a finalizer is counted or listed. The
successes of an Indexed Job need no list: an index in `status.completedIndexes` is counted. Source: KEP-2307.
"""

from collections.abc import Mapping, Sequence, Set

import msgspec

from actors.controllers.workloads.common.pods import PodView
from actors.controllers.workloads.jobs.indexes import fails_index, in_range, last_failed
from actors.controllers.workloads.jobs.spec import FAIL_JOB, IGNORE, JobSpec, format_indexes, judge, parse_indexes
from protocols.kube.meta import Object

MOST_LISTED = 500
"""Uids in the list at most, so that a status stays small."""


class Account(msgspec.Struct, kw_only=True):
    """Counts of a Job after its finished pods were looked through."""

    succeeded: int = 0
    """Counted pods; `total_succeeded` has the listed ones too."""
    failed: int = 0
    listed_succeeded: list[str] = msgspec.field(default_factory=list)
    listed_failed: list[str] = msgspec.field(default_factory=list)
    completed: set[int] = msgspec.field(default_factory=set)
    """Completed indexes of an Indexed Job."""
    failed_indexes: set[int] = msgspec.field(default_factory=set)
    """Indexes that failed too often, with `backoffLimitPerIndex`."""
    last_failed: dict[int, PodView] = msgspec.field(default_factory=dict)
    """The newest failed pod of each index that goes on; it is counted when another pod has its place."""
    release: list[PodView] = msgspec.field(default_factory=list)
    """Pods whose finalizer goes after the status is written."""
    absent: list[str] = msgspec.field(default_factory=list)
    """Listed uids whose pod is not known: to confirm that it is gone."""
    fatal: str = ""
    """Why a rule of the pod failure policy fails the Job."""
    more: bool = False
    """Finished pods are left for the next pass."""

    @property
    def total_succeeded(self) -> int:
        return self.succeeded + len(self.listed_succeeded)

    @property
    def total_failed(self) -> int:
        return self.failed + len(self.listed_failed)

    @property
    def ended_indexes(self) -> set[int]:
        """Indexes that get no pod any more: completed or failed for good. A new set at each call."""
        return self.completed | self.failed_indexes

    @property
    def settled(self) -> bool:
        return not (self.listed_succeeded or self.listed_failed or self.release or self.more)

    def status(self, spec: JobSpec) -> Object:
        lists = {"succeeded": self.listed_succeeded, "failed": self.listed_failed}
        return {
            "succeeded": self.succeeded,
            "failed": self.failed,
            "uncountedTerminatedPods": {name: uids or None for name, uids in lists.items()},
            "completedIndexes": (format_indexes(self.completed) or None) if spec.indexed else None,
            "failedIndexes": None if spec.backoff_limit_per_index is None else format_indexes(self.failed_indexes),
        }


def has_failed(spec: JobSpec, pod: PodView, *, ending: bool) -> bool:
    """A terminating pod counts as failed, unless only failed pods are replaced; `ending` = the Job has a verdict.

    One without a node never gets the phase Failed.
    """
    if pod.phase == "Failed" or (pod.deleting and not pod.node):
        return pod.phase != "Succeeded"
    return pod.deleting and not pod.finished and not spec.replace_failed_only and not ending


def account(spec: JobSpec, status: Object, pods: Sequence[PodView], gone: Set[str], *, ending: bool = False) -> Account:
    """Count the finished pods. `gone` are uids of pods known not to exist any more, or to have no finalizer."""
    listed = status.get("uncountedTerminatedPods") or {}
    tally = Account(succeeded=int(status.get("succeeded") or 0), failed=int(status.get("failed") or 0))
    if spec.indexed:
        tally.completed = parse_indexes(str(status.get("completedIndexes") or ""), spec.completions or 0)
    by_uid = {pod.uid: pod for pod in pods}
    for uid in listed.get("succeeded") or ():
        if not _still_listed(tally, tally.listed_succeeded, by_uid, gone, str(uid)):
            tally.succeeded += 1
    for uid in listed.get("failed") or ():
        if not _still_listed(tally, tally.listed_failed, by_uid, gone, str(uid)):
            tally.failed += 1
    known = {*tally.listed_succeeded, *tally.listed_failed}
    held = _hold_failed(tally, spec, status, pods, ending=ending) if spec.backoff_limit_per_index is not None else set()
    for pod in pods:
        if pod.tracked and pod.uid not in held:
            _take(tally, spec, pod, listed=pod.uid in known, ending=ending)
    if spec.indexed:
        tally.succeeded = len(tally.completed)
    return tally


def _hold_failed(found: Account, spec: JobSpec, status: Object, pods: Sequence[PodView], *, ending: bool) -> set[str]:
    """Judge the indexes by their failed pods. Return the uids of pods that are not counted yet.

    A pod without a finalizer was counted, or is deleted as one too many: neither fails its index.
    """
    done = {pod.index for pod in pods if pod.phase == "Succeeded" and pod.index is not None} | found.completed
    known = parse_indexes(str(status.get("failedIndexes") or ""), spec.completions or 0)
    failed = [pod for pod in pods if pod.tracked and has_failed(spec, pod, ending=ending)]
    ended = {pod.index for pod in failed if pod.index is not None and fails_index(spec, pod)}
    found.failed_indexes = (known | ended) - done
    found.last_failed = last_failed(spec, failed, done | found.failed_indexes)
    again = {pod.index for pod in pods if pod.active}
    return set() if ending else {pod.uid for index, pod in found.last_failed.items() if index not in again}


def _still_listed(found: Account, kept: list[str], by_uid: Mapping[str, PodView], gone: Set[str], uid: str) -> bool:
    """Return False when the pod's finalizer is gone, so that it is counted now."""
    pod = by_uid.get(uid)
    if uid in gone or (pod is not None and not pod.tracked):
        return False
    if pod is None:
        found.absent.append(uid)
    kept.append(uid)
    return True


def _take(found: Account, spec: JobSpec, pod: PodView, *, listed: bool, ending: bool) -> None:
    if listed:
        found.release.append(pod)
    elif pod.phase == "Succeeded":
        _take_success(found, spec, pod)
    elif has_failed(spec, pod, ending=ending):
        verdict = judge(spec, pod)
        if verdict.action == FAIL_JOB:
            found.fatal = found.fatal or verdict.message
        if verdict.action == IGNORE or (spec.indexed and not in_range(spec, pod)):
            found.release.append(pod)
        else:
            _list(found, found.listed_failed, pod)


def _take_success(found: Account, spec: JobSpec, pod: PodView) -> None:
    if not spec.indexed:
        _list(found, found.listed_succeeded, pod)
        return
    if pod.index is not None and in_range(spec, pod):
        found.completed.add(pod.index)
    found.release.append(pod)


def _list(found: Account, uids: list[str], pod: PodView) -> None:
    if len(found.listed_succeeded) + len(found.listed_failed) >= MOST_LISTED:
        found.more = True
        return
    uids.append(pod.uid)
    found.release.append(pod)
