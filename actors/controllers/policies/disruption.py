"""Status of PodDisruptionBudgets, pure: how many pods are healthy, must be, and may be evicted.

| budget | expected pods | must be healthy |
|---|---|---|
| minAvailable 3 | pods that match | 3 |
| minAvailable 30% | scale of the pods' controllers | 30% of it, rounded up |
| maxUnavailable 3 or 30% | scale of the pods' controllers | the rest |

Source: pkg/controller/disruption of Kubernetes 1.36.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from protocols.kube.errors import SelectorInvalid
from protocols.kube.meta import Object, condition_true, labels_of, meta, name_of, terminating
from protocols.kube.selectors import LabelSelector, label_selector_from_object
from protocols.kube.times import format_time, time_or

LONGEST_NUMBER = 9
TIMEOUT_S = 120.0
"""An evicted pod that is not being deleted after this time counts again."""
ALLOWED = "DisruptionAllowed"
SUFFICIENT, INSUFFICIENT, SYNC_FAILED = "SufficientPods", "InsufficientPods", "SyncFailed"


def selector_of(budget: Object) -> LabelSelector | None:
    """Return the selector; None if it matches nothing, because it is missing or invalid."""
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None:
        return None
    try:
        return label_selector_from_object(selector)
    except SelectorInvalid:
        return None


def selects(budget: Object, pod: Object) -> bool:
    """Return True if the budget is about the pod; a budget without a selector is about none."""
    selector = selector_of(budget)
    return selector is not None and selector.matches(labels_of(pod))


def needs_scale(budget: Object) -> bool:
    """Return True if the pods' controllers decide how many are expected."""
    spec = budget.get("spec") or {}
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def scaled(value: int | str, total: int) -> int:
    """Return a number, or a percentage of `total`, rounded up. Raises ScaleUnknown for anything else."""
    if isinstance(value, int):
        return value
    number = value.removesuffix("%")
    if number == value or not number.isdecimal() or len(number) > LONGEST_NUMBER:
        raise ScaleUnknown("invalid value for IntOrString: invalid type: string is not a percentage")
    return -(-int(number) * total // 100)


class ScaleUnknown(Exception):
    """Raised with the reason why the number of expected pods cannot be known."""


class Expectation(msgspec.Struct, frozen=True):
    """Numbers that a budget leads to: pods it counts on, and how many of them must be healthy."""

    pods: int
    healthy: int
    """Pods that must be healthy."""


def expectation(budget: Object, matching: int, scale: int) -> Expectation:
    """Return the numbers for a budget; `matching` pods match it, their controllers want `scale`."""
    spec = budget.get("spec") or {}
    most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
    if most is not None:
        return Expectation(scale, max(0, scale - scaled(most, scale)))
    if isinstance(least, str):
        return Expectation(scale, scaled(least, scale))
    return Expectation(matching, least) if least is not None else Expectation(0, 0)


def disrupted(budget: Object, pods: Iterable[Object], now: float) -> dict[str, str]:
    """Return the evicted pods whose deletion has not begun yet, with the times of their eviction."""
    known = (budget.get("status") or {}).get("disruptedPods") or {}
    waiting = {name_of(pod) for pod in pods if not terminating(pod)}
    return {name: at for name, at in known.items() if name in waiting and time_or(at) + TIMEOUT_S >= now}


def next_check(waiting: Mapping[str, str]) -> float | None:
    """Return the time at which the first of these evictions has timed out."""
    return min((time_or(at) + TIMEOUT_S for at in waiting.values()), default=None)


def healthy(pods: Iterable[Object], waiting: Mapping[str, str]) -> int:
    """Count the pods that are Ready and stay; `waiting` ones were evicted and are still shown."""
    return sum(condition_true(pod, "Ready") and not terminating(pod) and name_of(pod) not in waiting for pod in pods)


def status_of(budget: Object, pods: list[Object], expected: Expectation, now: float) -> Object:
    """Return the new status of a budget from its matching pods."""
    waiting = disrupted(budget, pods, now)
    current = healthy(pods, waiting)
    allowed = max(0, current - expected.healthy) if expected.pods > 0 else 0
    generation = int(meta(budget).get("generation") or 0)
    status: Object = {
        "currentHealthy": current,
        "desiredHealthy": expected.healthy,
        "expectedPods": expected.pods,
        "disruptionsAllowed": allowed,
        "observedGeneration": generation,
        **({"disruptedPods": waiting} if waiting else {}),
    }
    condition = (ALLOWED, SUFFICIENT if allowed else INSUFFICIENT, "")
    return {**status, "conditions": conditions(budget, condition, generation, now)}


def failed_status(budget: Object, pods: Iterable[Object], fault: str, now: float) -> Object:
    """Return the status of a budget that could not be calculated: it allows nothing."""
    status = {name: value for name, value in (budget.get("status") or {}).items() if name != "disruptedPods"}
    waiting = disrupted(budget, pods, now)
    observed = status.get("observedGeneration") or 0
    new_conditions = conditions(budget, (ALLOWED, SYNC_FAILED, fault), observed, now)
    return {
        **status,
        **({"disruptedPods": waiting} if waiting else {}),
        "disruptionsAllowed": 0,
        "conditions": new_conditions,
    }


def conditions(budget: Object, wanted: tuple[str, str, str], generation: int, now: float) -> list[Object]:
    """Return the conditions with the wanted one: its type, reason and message."""
    kind, reason, message = wanted
    held: list[Any] = (budget.get("status") or {}).get("conditions") or []
    old: Object = next((condition for condition in held if condition.get("type") == kind), {})
    state = "True" if reason == SUFFICIENT else "False"
    since = old.get("lastTransitionTime") if old.get("status") == state else None
    new = {
        "type": kind,
        "status": state,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since or format_time(now),
    }
    if not old:
        return [*held, new]
    return [new if condition is old else condition for condition in held]
