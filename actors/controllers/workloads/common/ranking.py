"""The order in which surplus pods are deleted. Pure.

First come pods that are not bound, then pending, unready and cheap ones, pods on a node with many of their kind, pods
that became ready late, those with a container, then a sidecar, that restarted often, young pods. Ages are compared by
magnitude so that equally old pods are chosen by uid, which is random. Source: ActivePodsWithRanks in pkg/controller of
Kubernetes 1.36.
"""

import math
from collections import Counter
from collections.abc import Iterable

from actors.controllers.workloads.common.pods import PodView

PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def deletion_order(pods: Iterable[PodView], related: Iterable[PodView], now: float) -> list[PodView]:
    """Sort pods, first to be deleted first. `related` are the active pods of all ReplicaSets of the same owner."""
    crowds = Counter(pod.node for pod in related if pod.node)
    return sorted(pods, key=lambda pod: _rank(pod, crowds.get(pod.node, 0), now))


def _rank(pod: PodView, crowd: int, now: float) -> tuple[object, ...]:
    ready = _magnitude(pod.ready_since, now) if pod.ready else 0.0
    return (
        bool(pod.node),
        PHASES.get(pod.phase, 2),
        pod.ready,
        pod.cost,
        -crowd,
        ready,
        *(-restarts for restarts in pod.most_restarts),
        _magnitude(pod.created, now),
        pod.uid,
    )


def _magnitude(since: float, now: float) -> int:
    """Return the logarithm of an age in seconds; an unknown time is young."""
    return int(math.log2(now - since)) if since > 0 and now - since >= 1 else -1
