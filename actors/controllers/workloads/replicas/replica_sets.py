"""ReplicaSets: how many pods to create, which to delete, and the status. Pure.

Source: pkg/controller/replicaset of Kubernetes 1.36.
"""

from collections.abc import Callable, Sequence

import msgspec

from actors.controllers.workloads.common.conditions import entry, put, without
from actors.controllers.workloads.common.pods import PodView
from actors.controllers.workloads.common.ranking import deletion_order
from actors.controllers.workloads.common.templates import template_of
from protocols.kube.meta import Object, labels_of, meta
from protocols.kube.times import format_time

FAILURE = "ReplicaFailure"


class _ReplicaPlan(msgspec.Struct, frozen=True):
    create: int = 0
    delete: tuple[PodView, ...] = ()


def replicas_of(obj: Object) -> int:
    """Return spec.replicas; 1 if it is not set, as upstream defaults it."""
    count = (obj.get("spec") or {}).get("replicas")
    return count if isinstance(count, int) else 1


def plan(
    replica_set: Object, pods: Sequence[PodView], related: Callable[[], Sequence[PodView]], now: float
) -> _ReplicaPlan:
    """Decide on its pods. `related` returns the pods of all ReplicaSets of its Deployment, its own among them."""
    active = [pod for pod in pods if pod.active]
    surplus = len(active) - replicas_of(replica_set)
    if surplus < 0:
        return _ReplicaPlan(create=-surplus)
    if surplus == 0:
        return _ReplicaPlan()
    neighbours = [pod for pod in related() if pod.active] or active
    return _ReplicaPlan(delete=tuple(deletion_order(active, neighbours, now)[:surplus]))


class ReplicaFailure(msgspec.Struct, frozen=True):
    """The error of the last pass, as the condition ReplicaFailure has it."""

    reason: str
    message: str


def status(
    replica_set: Object, pods: Sequence[PodView], fault: ReplicaFailure | None, now: float, *, observed: bool
) -> Object:
    """Return the whole status; `observed` = all pods are known, so that there are at most these or `spec.replicas`."""
    known = replica_set.get("status") or {}
    generation = meta(replica_set).get("generation") or 0
    wanted = labels_of(template_of(replica_set))
    min_ready = float((replica_set.get("spec") or {}).get("minReadySeconds") or 0)
    active = [pod for pod in pods if pod.active]
    conditions = known.get("conditions") or []
    if fault is not None:
        conditions = put(conditions, entry(FAILURE, "True", fault.reason, fault.message, format_time(now)))
    else:
        conditions = without(conditions, FAILURE)
    return {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(wanted.items() <= pod.labels.items() for pod in active),
        "readyReplicas": sum(pod.ready for pod in active),
        "availableReplicas": sum(pod.available(min_ready, now) for pod in active),
        "terminatingReplicas": sum(pod.deleting and not pod.finished for pod in pods),
        "observedGeneration": generation if observed else known.get("observedGeneration") or 0,
        "conditions": conditions,
    }


def wait(replica_set: Object, pods: Sequence[PodView], now: float) -> float | None:
    """Return the seconds until the next ready pod becomes available; None when there is none."""
    min_ready = float((replica_set.get("spec") or {}).get("minReadySeconds") or 0)
    return _next_available(pods, min_ready, now)


def _next_available(pods: Sequence[PodView], min_ready: float, now: float) -> float | None:
    waiting = [pod for pod in pods if pod.active and pod.ready and not pod.available(min_ready, now)]
    return min((max(0.0, pod.ready_since + min_ready - now) for pod in waiting), default=None)
