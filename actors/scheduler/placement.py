"""Scheduling of one pod: the scheduling cycle, one pod at a time, and the binding cycle, many at once.

The scheduling cycle assumes the pod on its node and reserves its devices, so that the next pod does not get the same.
"""

import logging
import time
from dataclasses import dataclass

from actors.scheduler.claim_demand import DEVICES, Assignment, Demand, Fit
from actors.scheduler.devices import Demands, DynamicResources, topics_of
from actors.scheduler.errors import ClaimChanged, ClaimsNotReady, DeviceConflict, ObjectUnreadable
from actors.scheduler.metrics import ERROR, SCHEDULED, UNSCHEDULABLE, SchedulerMetrics
from actors.scheduler.node_cache import Cache, best_node, summary
from actors.scheduler.queue import ANY_ROOM, Queue, Topics
from actors.scheduler.views import NodeLoad, PodView, pod_view
from protocols.dra.allocator import AllocationFault, TimedOut
from protocols.kube.meta import condition, key_of, uid_of
from protocols.kube.resources import PODS
from protocols.kube.times import now
from protocols.kubeclient.client import ApiAway, ApiClient, ApiError, Object
from protocols.kubeclient.events import EventRecorder

REASON_UNSCHEDULABLE, REASON_ERROR = "Unschedulable", "SchedulerError"
"""No node fits now; or the attempt failed, which says nothing about nodes."""


class Binder:
    """Writes bindings, the PodScheduled condition and events. Methods raise ApiError and ApiAway."""

    def __init__(self, client: ApiClient, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder

    async def bind(self, pod: Object, node: str) -> None:
        """Bind the pod in one write; the uid guards against a new pod of the same name."""
        metadata = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._client.create(PODS, binding, metadata["namespace"], subresource="binding")
        text = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {node}"
        self._recorder.event(pod, "Normal", "Scheduled", text)

    async def report_unschedulable(self, pod: Object, message: str, reason: str = REASON_UNSCHEDULABLE) -> None:
        """Report why the pod waits, by an event and its condition. An unchanged condition is not written again."""
        self._recorder.event(pod, "Warning", "FailedScheduling", message)
        known = condition(pod, "PodScheduled") or {}
        if (known.get("status"), known.get("message")) == ("False", message):
            return
        entry = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        since = known.get("lastTransitionTime") if known.get("status") == "False" else None
        entry["lastTransitionTime"] = str(since or now())
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [entry]}}
        await self._client.patch(
            PODS, metadata["name"], metadata["namespace"], body, kind="strategic", subresource="status"
        )


NO_PREEMPTION = "preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."
REPORTED_CODES = (403, 422)
"""Codes reported to users: retries alone will not help."""
Verdict = dict[str, list[str]]
"""Reasons by rejected node."""


@dataclass(frozen=True)
class Decision:
    pod: Object
    view: PodView
    node: str
    assignments: tuple[Assignment, ...] = ()
    began: float = 0.0


class Placement:
    def __init__(
        self, cache: Cache, queue: Queue, binder: Binder, devices: DynamicResources, metrics: SchedulerMetrics,
        log: logging.Logger,
    ) -> None:  # fmt: skip
        self.cache, self.queue, self.binder = cache, queue, binder
        self.devices, self.metrics, self._log = devices, metrics, log

    async def run_scheduling_cycle(self, pod: Object) -> Decision | None:
        """Run the scheduling cycle. Return None if the pod must wait; it is queued and the reason reported."""
        uid, began = uid_of(pod), time.monotonic()
        try:
            return await self._choose(pod, pod_view(pod), began)
        except ObjectUnreadable as error:
            await self._report_unschedulable(pod, str(error), ANY_ROOM, began)
        except ClaimsNotReady as error:
            await self._not_ready(pod, error, began)
        except (AllocationFault, TimedOut) as fault:
            self.queue.retry(uid, self._now())
            self.metrics.attempt(ERROR, time.monotonic() - began)
            await self._report(pod, str(fault), REASON_ERROR)
        except (ApiAway, ApiError) as error:
            self._retry(pod, error, began)
        return None

    async def run_binding_cycle(self, decision: Decision) -> bool:
        """Run the binding cycle. Return False if the pod must be scheduled again."""
        pod, view = decision.pod, decision.view
        try:
            await self._assign(decision)
            await self._bind(pod, view, decision.node)
        except (ApiAway, ApiError, ClaimChanged, DeviceConflict, TimeoutError) as error:
            self._retry(pod, error, decision.began)
            if isinstance(error, ApiError) and error.code in REPORTED_CODES:
                await self._report(pod, str(error), REASON_ERROR)
            return False
        self.metrics.attempt(SCHEDULED, time.monotonic() - decision.began)
        return True

    # scheduling cycle

    async def _choose(self, pod: Object, view: PodView, began: float) -> Decision | None:
        backed = self.devices.backed(view)
        if backed:
            await self.devices.delete_leftover_claims(pod)
        demand = self.devices.demand(pod) if view.claims or backed else Demand()
        fitting, rejected = await self._feasible(view, backed)
        nodes = [load.view for load in fitting.values()]
        demands = self.devices.demands(pod, demand, backed, nodes) if backed else dict.fromkeys(fitting, demand)
        if demand.empty and not backed:
            if fitting:
                return self._assume(Decision(pod, view, best_node(view, fitting), (), began))
            await self._report_unschedulable(
                pod, summary(len(rejected), rejected.values()), topics_of(demand, view), began
            )
            return None
        fits = await self.devices.fits(demands, nodes)
        fitting_nodes = {name: load for name, load in fitting.items() if not fits[name].reason}
        if fitting_nodes:
            return self._reserved(pod, view, demands, fitting_nodes, fits, began)
        rejected |= {name: [fit.reason] for name, fit in fits.items()}
        await self._no_node(pod, view, demand, rejected, fits, began)
        return None

    async def _feasible(self, view: PodView, backed: frozenset[str]) -> tuple[dict[str, NodeLoad], Verdict]:
        """Filter nodes. An assumed pod keeps its node: its binding may have been written without a response."""
        assumed = self.cache.assumed_node(view.uid)
        return ({assumed: self.cache.nodes[assumed]}, {}) if assumed else await self.cache.feasible(view, backed)

    def _reserved(
        self, pod: Object, view: PodView, demands: Demands, fitting_nodes: dict[str, NodeLoad], fits: dict[str, Fit],
        began: float,
    ) -> Decision | None:  # fmt: skip
        node = best_node(view, fitting_nodes, {name: fits[name].score for name in fitting_nodes})
        assignments = self.devices.reserve(demands[node], node, fits[node])
        if assignments is None:  # a device was taken since the search
            self.queue.park(view.uid, ANY_ROOM)
            self.queue.add(view.uid)
            return None
        return self._assume(Decision(pod, view, node, assignments, began))

    def _assume(self, decision: Decision) -> Decision:
        self.cache.place(decision.node, decision.view)
        return decision

    # binding cycle

    async def _assign(self, decision: Decision) -> None:
        if not decision.assignments:
            return
        claims = sum(each.allocation is not None for each in decision.assignments)
        result = "overtaken"
        try:
            await self.devices.assign(decision.pod, decision.assignments)
            result = "done"
        except DeviceConflict:
            result = "contested"
            raise
        finally:
            if result != "done":
                self.cache.forget(decision.view.uid)
                self.queue.changed(DEVICES)
            self.metrics.allocated(result, claims)

    async def _bind(self, pod: Object, view: PodView, node: str) -> None:
        """Bind the pod.

        Only a definite rejection ends the assumption. After 409 (bound already, or just changed) and after silence it
        stands until the informer shows the pod, or the next attempt.
        """
        try:
            await self.binder.bind(pod, node)
        except ApiError as error:
            if error.code != 409:
                self.cache.forget(view.uid)
            raise
        self.queue.remove(view.uid)

    # failed attempts

    async def _no_node(
        self, pod: Object, view: PodView, demand: Demand, rejected: Verdict, fits: dict[str, Fit], began: float
    ) -> None:  # fmt: skip
        self.queue.failed(uid_of(pod), self._now(), topics_of(demand, view))
        done = await self.devices.deallocate_unused(pod, demand, fits.values())
        nodes = len(rejected)
        text = summary(nodes, rejected.values())
        self.metrics.attempt(UNSCHEDULABLE, time.monotonic() - began)
        await self._report(pod, f"{text} {done}, {NO_PREEMPTION.format(nodes)}" if nodes else text)

    async def _not_ready(self, pod: Object, error: ClaimsNotReady, began: float) -> None:
        uid = uid_of(pod)
        if error.expected:
            return self.queue.park(uid, error.topics)
        nodes = len(self.cache.nodes)
        text = f"0/{nodes} nodes are available: {error}. still not schedulable, {NO_PREEMPTION.format(nodes)}"
        return await self._report_unschedulable(pod, text if nodes else summary(0, ()), error.topics, began)

    async def _report_unschedulable(self, pod: Object, message: str, topics: Topics, began: float) -> None:
        self.queue.failed(uid_of(pod), self._now(), topics)
        self.metrics.attempt(UNSCHEDULABLE, time.monotonic() - began)
        await self._report(pod, message)

    async def _report(self, pod: Object, message: str, *reason: str) -> None:
        try:
            await self.binder.report_unschedulable(pod, message, *reason)
        except (ApiAway, ApiError) as error:
            self._retry(pod, error, time.monotonic())

    def _retry(self, pod: Object, error: Exception, began: float) -> None:
        """Queue the pod again after a failed attempt."""
        self._log.info("scheduling attempt failed pod=%s error=%s", key_of(pod), str(error) or type(error).__name__)
        self.queue.retry(uid_of(pod), self._now())
        self.metrics.attempt(ERROR, time.monotonic() - began)

    def _now(self) -> float:
        return time.monotonic()
