"""Failures of each index of a Job with `backoffLimitPerIndex`. Pure.

How often an index failed stands in annotations of its newest pod. So the last failed pod of an index keeps its
finalizer until another pod has taken over its count, or the index has ended. Source: KEP-3850.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from actors.controllers.workloads.common.pods import PodView
from actors.controllers.workloads.jobs.spec import FAIL_INDEX, IGNORE, JobSpec, judge
from protocols.process.rates import backoff_delay

BACKOFF_S, LONGEST_BACKOFF_S = 10.0, 600.0
MANY = ("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")
SOME = ("FailedIndexes", "Job has failed indexes")


class Failures(NamedTuple):
    """Failed pods of an index, in a row."""

    counted: int = 0
    ignored: int = 0
    """Failures that a rule of the pod failure policy ignores."""


def failures_with(spec: JobSpec, pod: PodView) -> Failures:
    """Return the failures of an index after this failed pod."""
    if judge(spec, pod).action == IGNORE:
        return Failures(pod.index_failures, pod.index_ignored + 1)
    return Failures(pod.index_failures + 1, pod.index_ignored)


def fails_index(spec: JobSpec, pod: PodView) -> bool:
    """Return True if this failed pod ends its index."""
    limit = spec.backoff_limit_per_index
    if limit is None or not in_range(spec, pod):
        return False
    return judge(spec, pod).action == FAIL_INDEX or failures_with(spec, pod).counted > limit


def last_failed(spec: JobSpec, failed: Iterable[PodView], over: AbstractSet[int]) -> dict[int, PodView]:
    """Return the newest failed pod of each index that is not `over`."""
    newest: dict[int, PodView] = {}
    for pod in failed:
        if not in_range(spec, pod) or pod.index is None or pod.index in over:
            continue
        known = newest.get(pod.index)
        if known is None or _age(pod) > _age(known):
            newest[pod.index] = pod
    return newest


def _age(pod: PodView) -> tuple[int, float, str]:
    return pod.index_failures + pod.index_ignored, pod.ended, pod.name


def in_range(spec: JobSpec, pod: PodView) -> bool:
    """Return True if the Job has the pod's index; its completions may have been lowered."""
    return pod.index is not None and 0 <= pod.index < (spec.completions or 0)


def delay(spec: JobSpec, pod: PodView | None, now: float) -> float:
    """Return the seconds until an index may run again after its last failed pod."""
    if pod is None:
        return 0.0
    return pod.ended + backoff_delay(sum(failures_with(spec, pod)), BACKOFF_S, LONGEST_BACKOFF_S) - now


def verdict(spec: JobSpec, failed: AbstractSet[int], completed: AbstractSet[int]) -> tuple[str, str] | None:
    """Return reason and message of a Job that fails by its indexes."""
    if spec.max_failed_indexes is not None and len(failed) > spec.max_failed_indexes:
        return MANY
    over = failed and len(failed) + len(completed) >= (spec.completions or 0)
    return SOME if over else None


def due(spec: JobSpec, indexes: Sequence[int], failed: dict[int, PodView], now: float) -> tuple[list[int], float]:
    """Return the indexes that may run now, and the seconds until the next one may; 0 if none waits."""
    waits = {index: delay(spec, failed.get(index), now) for index in indexes}
    later = [left for left in waits.values() if left > 0]
    return [index for index, left in waits.items() if left <= 0], min(later, default=0.0)
