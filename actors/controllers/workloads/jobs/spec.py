"""The parts of a Job's spec that its controller decides on, and index lists such as `0-2,5`. Pure."""

from collections.abc import Iterable, Iterator

import msgspec

from actors.controllers.workloads.common.pods import PodView
from protocols.kube.meta import Object, namespace_of

IGNORE, COUNT, FAIL_JOB, FAIL_INDEX = "Ignore", "Count", "FailJob", "FailIndex"
JOB_CONTROLLER = "kubernetes.io/job-controller"
MOST_INDEXES = 100_000
"""Completion indexes of a Job, which are held in memory while a pass is made."""


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A Job's spec with upstream's defaults; times in seconds, None for no limit."""

    parallelism: int = 1
    completions: int | None = None
    indexed: bool = False
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    deadline: float | None = None
    ttl: float | None = None
    suspended: bool = False
    on_failure: bool = False
    """Containers are restarted in their pod."""
    replace_failed_only: bool = False
    """A terminating pod is replaced when it has failed, not before."""
    failure_rules: tuple[Object, ...] = ()
    success_rules: tuple[Object, ...] = ()


def job_spec(job: Object) -> JobSpec:
    """Read a Job's spec; null counts as absent."""
    spec = job.get("spec") or {}
    parallelism, limit = spec.get("parallelism"), spec.get("backoffLimit")
    template = (spec.get("template") or {}).get("spec") or {}
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    return JobSpec(
        parallelism=1 if parallelism is None else int(parallelism),
        completions=spec.get("completions"),
        indexed=spec.get("completionMode") == "Indexed",
        backoff_limit=6 if limit is None else int(limit),
        backoff_limit_per_index=spec.get("backoffLimitPerIndex"),
        max_failed_indexes=spec.get("maxFailedIndexes"),
        deadline=_seconds(spec.get("activeDeadlineSeconds")),
        ttl=_seconds(spec.get("ttlSecondsAfterFinished")),
        suspended=bool(spec.get("suspend")),
        on_failure=template.get("restartPolicy") == "OnFailure",
        replace_failed_only=spec.get("podReplacementPolicy") == "Failed" or bool(rules),
        failure_rules=tuple(rules),
        success_rules=tuple((spec.get("successPolicy") or {}).get("rules") or ()),
    )


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int) else None


def managed_elsewhere(job: Object) -> bool:
    """Return True if the Job names another controller."""
    return (job.get("spec") or {}).get("managedBy") not in (None, JOB_CONTROLLER)


def unsupported(job: Object) -> str:
    """Return why this controller cannot run the Job; empty if it can."""
    spec = job.get("spec") or {}
    if spec.get("completionMode") == "Indexed" and int(spec.get("completions") or 0) > MOST_INDEXES:
        return f"spec.completions above {MOST_INDEXES} of an Indexed Job needs kube-controller-manager; lower it"
    return ""


# pod failure policy


class _FailureVerdict(msgspec.Struct, frozen=True):
    action: str = COUNT
    message: str = ""
    """Reason, for FailJob."""


def judge(spec: JobSpec, pod: PodView) -> _FailureVerdict:
    """Return the action of the first rule that a failed pod matches."""
    for number, rule in enumerate(spec.failure_rules):
        why = _by_exit(rule.get("onExitCodes"), pod) or _by_condition(rule.get("onPodConditions") or (), pod)
        if why:
            action = str(rule.get("action"))
            return _FailureVerdict(action, f"{why} matching {action} rule at index {number}")
    return _FailureVerdict()


def _by_exit(wanted: Object | None, pod: PodView) -> str:
    if wanted is None:
        return ""
    only, values, inside = wanted.get("containerName"), wanted.get("values") or (), wanted.get("operator") == "In"
    for ended in pod.exits:
        if ended.code and only in (None, "", ended.container) and (ended.code in values) == inside:
            return f"Container {ended.container} for pod {pod.namespace}/{pod.name} failed with exit code {ended.code}"
    return ""


def _by_condition(wanted: Iterable[Object], pod: PodView) -> str:
    for pattern in wanted:
        kind = str(pattern.get("type"))
        if (kind, str(pattern.get("status") or "True")) in pod.conditions:
            return f"Pod {namespace_of(pod.obj) or pod.namespace}/{pod.name} has condition {kind}"
    return ""


# completion indexes


def parse_indexes(text: str, below: int) -> set[int]:
    """Read `0-2,5`; indexes that the Job does not have are left out."""
    indexes: set[int] = set()
    below = min(below, MOST_INDEXES)
    for part in text.split(","):
        first, _, last = part.partition("-")
        if _is_index(first) and (not last or _is_index(last)):
            indexes.update(range(int(first), min(int(last or first) + 1, below)))
    return {index for index in indexes if index < below}


def _is_index(text: str) -> bool:
    return len(text) < 19 and text.isascii() and text.isdigit()


def format_indexes(indexes: Iterable[int]) -> str:
    """Write `0-2,5`; two neighbours are a list, as upstream writes them."""
    return ",".join(_run(first, last) for first, last in _runs(sorted(indexes)))


def _run(first: int, last: int) -> str:
    return str(first) if first == last else f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def _runs(ordered: list[int]) -> Iterator[tuple[int, int]]:
    start = previous = None
    for index in ordered:
        if previous is not None and start is not None and index != previous + 1:
            yield start, previous
            start = index
        start, previous = (index if start is None else start), index
    if start is not None and previous is not None:
        yield start, previous


def missing_indexes(spec: JobSpec, taken: set[int], count: int) -> list[int]:
    """Return the first `count` indexes that are neither done nor running."""
    missing: list[int] = []
    for index in range(spec.completions or 0):
        if len(missing) >= count:
            break
        if index not in taken:
            missing.append(index)
    return missing
