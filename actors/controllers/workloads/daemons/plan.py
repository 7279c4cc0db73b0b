"""DaemonSets: which pods to create and delete, and the status. Pure.

A pass first repairs (missing, surplus, failed and misplaced pods), then updates: without surge it deletes pods of old
revisions as far as maxUnavailable allows; with surge it creates the new pod beside the old one on up to maxSurge
nodes. Source: pkg/controller/daemon of Kubernetes 1.36.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from actors.controllers.workloads.common.pods import GENERATION, REVISION_HASH, PodView
from actors.controllers.workloads.common.templates import scaled_value
from actors.controllers.workloads.daemons.nodes import TEMPLATE_GENERATION, Fit
from protocols.kube.meta import Object, annotations_of, meta

Fits = dict[str, Fit]
"""By the name of every node."""
Backoff = Callable[[str], float]
"""Seconds until a failed pod on this node may be replaced; 0 = now."""


class DaemonSetPlan(msgspec.Struct, kw_only=True):
    """Changes of one pass."""

    create: list[str] = msgspec.field(default_factory=list)
    """Nodes that need a pod."""
    delete: list[PodView] = msgspec.field(default_factory=list)
    failed: list[PodView] = msgspec.field(default_factory=list)
    """Pods of `delete` that failed or ended."""
    wait: float | None = None
    """Seconds until a failed pod may be replaced."""


class Daemons:
    """The pods of one DaemonSet by node, for one pass."""

    def __init__(self, daemon_set: Object, revision_hash: str, fits: Fits, pods: Iterable[PodView], now: float) -> None:
        spec = daemon_set.get("spec") or {}
        self._hash, self._fits, self._now = revision_hash, fits, now
        self._generation = annotations_of(daemon_set).get(TEMPLATE_GENERATION)
        self._observed = meta(daemon_set).get("generation") or 0
        self._min_ready = float(spec.get("minReadySeconds") or 0)
        self._status = daemon_set.get("status") or {}
        strategy = spec.get("updateStrategy") or {}
        update = strategy.get("rollingUpdate") or {}
        self._rolling = strategy.get("type", "RollingUpdate") == "RollingUpdate"
        desired = sum(fit.run for fit in fits.values())
        self._surge = scaled_value(update.get("maxSurge", 0), desired, up=True) if self._rolling else 0
        unavailable = scaled_value(update.get("maxUnavailable", 1), desired, up=True)
        self._unavailable = unavailable if unavailable or self._surge else 1
        self._pods: defaultdict[str, list[PodView]] = defaultdict(list)
        for pod in sorted(pods, key=lambda each: (not each.node, each.created, each.name)):
            if not (pod.deleting and pod.finished):  # only a finalizer holds it, which keeps no node from a new one
                self._pods[pod.target].append(pod)

    # repair

    def repair(self, backoff: Backoff) -> DaemonSetPlan:
        plan = DaemonSetPlan()
        for node, fit in self._fits.items():
            self._repair(plan, node, fit, backoff)
        for node, pods in self._pods.items():
            if node not in self._fits:  # pods bound to a node that is gone are pod garbage collection's
                plan.delete += [pod for pod in pods if not pod.node and not pod.deleting]
        return plan

    def _repair(self, plan: DaemonSetPlan, node: str, fit: Fit, backoff: Backoff) -> None:
        pods = self._pods.get(node, [])
        present = [pod for pod in pods if not pod.deleting]
        if not fit.stay:
            plan.delete += present
            return
        if not pods:
            if fit.run:
                plan.create.append(node)
            return
        ended = [pod for pod in present if pod.finished]
        self._replace(plan, node, ended, backoff)
        running = sorted((pod for pod in present if not pod.finished), key=lambda pod: not pod.ready)
        if not self._surge:
            plan.delete += running[1:]
        elif not running and fit.run and not ended:
            plan.create.append(node)
        else:
            plan.delete += self._surplus(running)

    def _replace(self, plan: DaemonSetPlan, node: str, ended: Sequence[PodView], backoff: Backoff) -> None:
        for pod in ended:
            delay = backoff(node) if pod.phase == "Failed" else 0.0
            if delay > 0:
                plan.wait = delay if plan.wait is None else min(plan.wait, delay)
                continue
            plan.delete.append(pod)
            plan.failed.append(pod)

    def _surplus(self, running: Sequence[PodView]) -> list[PodView]:
        """Return the pods to delete on a node where two may run: one of each, old and new revision, stays.

        The old one goes when it is not ready any more or when the new one is available.
        """
        new = [pod for pod in running if self._updated(pod)]
        old = [pod for pod in running if not self._updated(pod)]
        surplus = [*new[1:], *old[1:]]
        if new and old and (not old[0].ready or self._available(new[0])):
            surplus.append(old[0])
        return surplus

    # update

    def update(self) -> DaemonSetPlan:
        """Return the step of a rolling update. Call it when the repair had nothing to do."""
        if not self._rolling:
            return DaemonSetPlan()
        return self._update_with_surge() if self._surge else self._update_in_place()

    def _update_in_place(self) -> DaemonSetPlan:
        missing = 0
        broken: list[PodView] = []
        candidates: list[PodView] = []
        for node in self._wanted():
            new, old = self._pair(node)
            if old is None:
                missing += new is None or not self._available(new)
            elif new is not None or not self._available(old):
                missing += 1
                broken.append(old)
            else:
                candidates.append(old)
        room = max(0, self._unavailable - missing)
        return DaemonSetPlan(delete=[*broken, *candidates[:room]])

    def _update_with_surge(self) -> DaemonSetPlan:
        surging, plan = 0, DaemonSetPlan()
        broken: list[str] = []
        candidates: list[str] = []
        for node in self._wanted():
            new, old = self._pair(node)
            if old is None:
                continue
            if new is None:
                (candidates if self._available(old) else broken).append(node)
            elif self._available(new):
                plan.delete.append(old)
            else:
                surging += 1
        plan.create = [*broken, *candidates[: max(0, self._surge - surging)]]
        return plan

    def _wanted(self) -> list[str]:
        return [node for node, fit in self._fits.items() if fit.run]

    def _pair(self, node: str) -> tuple[PodView | None, PodView | None]:
        """Return the pods of the new and of an old revision on a node that repair has left at most one of each."""
        present = [pod for pod in self._pods.get(node, ()) if pod.active]
        new = next((pod for pod in present if self._updated(pod)), None)
        return new, next((pod for pod in present if not self._updated(pod)), None)

    def _updated(self, pod: PodView) -> bool:
        by_generation = self._generation is not None and pod.labels.get(GENERATION) == self._generation
        return by_generation or pod.labels.get(REVISION_HASH) == self._hash

    def _available(self, pod: PodView) -> bool:
        return not pod.deleting and pod.available(self._min_ready, self._now)

    # status

    def status(self, *, observed: bool) -> Object:
        """Return the whole status; `observed` = the current generation was acted on."""
        counts = dict.fromkeys(
            ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
        ) | {"updatedNumberScheduled": 0, "numberAvailable": 0, "numberUnavailable": 0}
        for node, fit in self._fits.items():
            self._count(counts, self._pods.get(node, ()), fit)
        counts["numberUnavailable"] = counts["desiredNumberScheduled"] - counts["numberAvailable"]
        known = int(self._status.get("observedGeneration") or 0)
        return counts | {"observedGeneration": self._observed if observed else known}

    def _count(self, found: dict[str, int], pods: Sequence[PodView], fit: Fit) -> None:
        if not fit.run:
            found["numberMisscheduled"] += bool(pods)
            return
        found["desiredNumberScheduled"] += 1
        if not pods:
            return
        found["currentNumberScheduled"] += 1
        oldest = pods[0]
        found["numberReady"] += oldest.ready
        found["numberAvailable"] += oldest.available(self._min_ready, self._now)
        found["updatedNumberScheduled"] += self._updated(oldest)

    def next_available(self) -> float | None:
        """Return the seconds until a ready pod becomes available."""
        waits = [
            max(0.0, pod.ready_since + self._min_ready - self._now)
            for pods in self._pods.values()
            for pod in pods
            if pod.active and pod.ready and not self._available(pod)
        ]
        return min(waits, default=None)
