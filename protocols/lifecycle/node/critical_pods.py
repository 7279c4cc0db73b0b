"""Which pods end so that a critical pod is admitted, as upstream's pkg/kubelet/preemption/preemption.go. Pure.

Pods of the lowest quality of service go first, and as few as possible: each time the one that leaves the least of what
is still needed.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from protocols.lifecycle.pods.resources import BEST_EFFORT, BURSTABLE, GUARANTEED
from protocols.lifecycle.pods.types import PodSpec, is_static
from protocols.scheduling.host_ports import HostPort
from protocols.scheduling.requests import Amounts

SYSTEM_CRITICAL = 2_000_000_000
"""Priority of system-cluster-critical."""


class Occupant(NamedTuple):
    """Requests and host ports of an admitted pod."""

    requests: Amounts
    ports: tuple[HostPort, ...]
    quality: str
    """QoS class."""
    priority: int | None
    critical: bool


def is_critical(spec: PodSpec) -> bool:
    """Return True for static pods and those of system priority: only those are admitted at the cost of others."""
    return is_static(spec.raw) or int((spec.raw.get("spec") or {}).get("priority") or 0) >= SYSTEM_CRITICAL


def victims(pod: Occupant, others: Mapping[str, Occupant], needed: Amounts) -> tuple[str, ...] | None:
    """Return the uids of pods that free what is needed; None if all together do not."""
    by_quality: dict[str, dict[str, Occupant]] = {BEST_EFFORT: {}, BURSTABLE: {}, GUARANTEED: {}}
    for uid, other in others.items():
        if _is_preemptable(pod, other):
            by_quality[other.quality][uid] = other
    preempted: dict[str, Occupant] = {}
    for quality in (GUARANTEED, BURSTABLE, BEST_EFFORT):
        lower = _lower(by_quality, quality)
        chosen = _fewest(by_quality[quality], still_needed(needed, [*lower, *preempted.values()]))
        if chosen is None:
            return None
        preempted |= chosen
    return tuple(preempted)


def _is_preemptable(pod: Occupant, other: Occupant) -> bool:
    if pod.critical and not other.critical:
        return True
    return pod.priority is not None and other.priority is not None and pod.priority > other.priority


def _lower(by_quality: Mapping[str, Mapping[str, Occupant]], quality: str) -> list[Occupant]:
    """Return the pods of lower quality, which go before."""
    order = (BEST_EFFORT, BURSTABLE, GUARANTEED)
    return [pod for lower in order[: order.index(quality)] for pod in by_quality[lower].values()]


def still_needed(needed: Amounts, freed: Iterable[Occupant]) -> Amounts:
    """Return what is still needed once these pods are gone."""
    left = dict(needed)
    for pod in freed:
        for name in needed:
            left[name] -= pod.requests.get(name, 0)
    return {name: amount for name, amount in left.items() if amount > 0}


def _fewest(pods: Mapping[str, Occupant], needed: Amounts) -> dict[str, Occupant] | None:
    """Choose pods until nothing is needed any more; None if they are too few."""
    left, candidates, chosen = needed, dict(pods), dict[str, Occupant]()
    while left:
        if not candidates:
            return None
        uid = min(candidates, key=lambda uid: (_distance(left, candidates[uid]), *_size(candidates[uid])))
        chosen[uid] = candidates.pop(uid)
        left = still_needed(left, [chosen[uid]])
    return chosen


def _distance(needed: Amounts, pod: Occupant) -> float:
    """Return how much of what is needed would be left, each resource weighted equally."""
    shares = (max(0, amount - pod.requests.get(name, 0)) / amount for name, amount in needed.items())
    return sum(share * share for share in shares)


def _size(pod: Occupant) -> tuple[int, int]:
    return pod.requests.get("memory", 0), pod.requests.get("cpu", 0)
