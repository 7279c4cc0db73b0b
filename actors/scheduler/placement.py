"""Scheduling of one pod: the scheduling cycle, one pod at a time, and the binding cycle, many at once.

The scheduling cycle assumes the pod on its node and reserves its devices, so that the next pod does not get the same.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from actors.scheduler.claims.device_fit import FITS, NOT_ALLOCATABLE, SearchTakesLong
from actors.scheduler.claims.devices import Demands, DynamicResources, topics_of
from actors.scheduler.claims.explanations import Question
from actors.scheduler.metrics import ERROR, SCHEDULED, UNSCHEDULABLE, SchedulerMetrics
from actors.scheduler.model.candidates import Candidate
from actors.scheduler.model.claim_demand import DEVICES, Assignment, Demand, Fit
from actors.scheduler.model.errors import (
    BindingFailed,
    ClaimChanged,
    ClaimsNotReady,
    DeviceConflict,
    ObjectUnreadable,
    WaitPreempted,
)
from actors.scheduler.model.queue import ANY_ROOM, ROOM, Queue, Topics
from actors.scheduler.model.views import NodeLoad, NodeView, PodView, pod_view
from actors.scheduler.nodes.node_cache import Cache, reasons, summary
from actors.scheduler.nodes.node_table import NodeTable
from actors.scheduler.nodes.scoring import NodeScorer
from actors.scheduler.preemption.planner import FailedAttempt, Plan, Verdict
from actors.scheduler.preemption.preemptor import Preemptor, nominated_node
from protocols.dra.allocator import AllocationFault, TimedOut
from protocols.dra.binding import FAILED, READY
from protocols.kube.meta import condition, key_of, uid_of
from protocols.kube.resources import PODS
from protocols.kube.times import now
from protocols.kubeclient.client import ApiAway, ApiClient, ApiError, Object
from protocols.kubeclient.events import EventRecorder
from protocols.trace import span

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

    def report_preparing(self, pod: Object, node: str) -> None:
        text = f"waiting for binding conditions for device on node {node}"
        self._recorder.event(pod, "Normal", "BindingConditionsPending", text)

    async def report_unschedulable(
        self, pod: Object, message: str, reason: str = REASON_UNSCHEDULABLE, nominated: str | None = None
    ) -> None:
        """Report why the pod waits, by an event and its condition, and the node where it is going to get room.

        An unchanged condition is not written again. `nominated` is None to leave the nomination as it is.
        """
        self._recorder.event(pod, "Warning", "FailedScheduling", message)
        known = condition(pod, "PodScheduled") or {}
        nomination = {} if nominated in (None, nominated_node(pod)) else {"nominatedNodeName": nominated or None}
        if not nomination and (known.get("status"), known.get("message")) == ("False", message):
            return
        entry = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        since = known.get("lastTransitionTime") if known.get("status") == "False" else None
        entry["lastTransitionTime"] = str(since or now())
        if generation := pod["metadata"].get("generation"):
            entry["observedGeneration"] = generation
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [entry], **nomination}}
        await self._client.patch(
            PODS, metadata["name"], metadata["namespace"], body, kind="strategic", subresource="status"
        )


NO_PREEMPTION = "preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."
REPORTED_CODES = (403, 422)
"""Codes reported to users: retries alone will not help."""


@dataclass(frozen=True)
class Decision:
    pod: Object
    view: PodView
    node: str
    assignments: tuple[Assignment, ...] = ()
    began: float = 0.0


def _first_choices(fitting: dict[str, NodeLoad], fits: dict[str, Fit]) -> dict[str, NodeLoad]:
    """Return the nodes with the devices that the claims list first."""
    most = max(fits[name].score for name in fitting)
    return {name: load for name, load in fitting.items() if fits[name].score == most}


class Placement:
    def __init__(
        self, cache: Cache, queue: Queue, binder: Binder, devices: DynamicResources, metrics: SchedulerMetrics,
        log: logging.Logger, wake: Callable[[], None], dice: random.Random, preemptor: Preemptor,
    ) -> None:  # fmt: skip
        self.cache, self.queue, self.binder = cache, queue, binder
        self.devices, self.metrics, self._log = devices, metrics, log
        self._wake = wake
        self._dice = dice
        self.preemptor = preemptor
        devices.fit.verified.changed = cache.changes.mark

    async def run_scheduling_cycle(self, pod: Object) -> Decision | None:
        """Run the scheduling cycle. Return None if the pod must wait; it is queued and the reason reported."""
        began = time.monotonic()
        try:
            with span(uid_of(pod), "schedule") as scheduling:
                decision = await self._choose(pod, pod_view(pod), began)
                scheduling.attributes["node"] = decision.node if decision else ""
                return decision
        except ObjectUnreadable as error:
            await self._report_unschedulable(pod, str(error), ANY_ROOM, began)
        except ClaimsNotReady as error:
            await self._not_ready(pod, error, began)
        except SearchTakesLong as search:
            self.devices.searches.add(search, partial(self._searched, pod, began))
        except (AllocationFault, TimedOut) as fault:
            await self._faulted(pod, fault, began)
        except (ApiAway, ApiError) as error:
            self._retry(pod, error, began)
        return None

    async def run_binding_cycle(self, decision: Decision, slots: asyncio.Semaphore) -> bool:
        """Run the binding cycle. Return False if the pod must be scheduled again.

        The slot is given to others while devices of the pod are prepared.
        """
        pod, view = decision.pod, decision.view
        written: tuple[Assignment, ...] = ()
        try:
            written = await self._assign(decision)
            await self._prepared(decision, written, slots)
            await self._bind(pod, view, decision.node)
        except WaitPreempted as preempted:
            await self._give_way(decision, written, preempted)
            return False
        except BindingFailed as failure:
            await self._not_prepared(decision, written, failure)
            return False
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
        tabled = self._is_tabled(view, demand, backed)
        if tabled and (decision := await self._choose_from_table(pod, view, demand, began)):
            return decision
        position = self.cache.changes.position
        fitting, rejected = await self._feasible(view, backed)
        fitting, preferences = await self.cache.prefer(view, fitting)
        known = self.cache.memos.of(view.shape, backed).scores
        scorer = NodeScorer(view, preferences, self._dice, known)
        nodes = [load.view for load in fitting.values()]
        demands = self.devices.demands(pod, demand, backed, nodes) if backed else dict.fromkeys(fitting, demand)
        if demand.empty and not backed:
            if fitting:
                if tabled:
                    self._keep_table(scorer, demand, position, fitting, dict.fromkeys(fitting, FITS))
                node = scorer.best(self.preemptor.preferred(view, fitting))
                return self._assume(Decision(pod, view, node, (), began))
            await self._no_node(pod, view, demand, backed, rejected, {}, began)
            return None
        fits = await self.devices.fits(demands, nodes, self.preemptor.kept(view))
        fitting_nodes = {name: load for name, load in fitting.items() if not fits[name].reason}
        if fitting_nodes:
            if tabled:
                self._keep_table(scorer, demand, position, fitting_nodes, fits)
            fitting_nodes = self.devices.binding.untried(view.uid, fitting_nodes)
            return self._reserved(pod, scorer, demands, fitting_nodes, fits, began)
        why = self._explained(pod, view, demands, nodes, fits, rejected)
        rejected |= {name: [fit.reason] for name, fit in fits.items()}
        if why is not None:
            await self._no_node(pod, view, demand, backed, rejected, fits, began, why)
        return None

    # tables of nodes

    def _is_tabled(self, view: PodView, demand: Demand, backed: frozenset[str]) -> bool:
        """Return True if the pod is like others: it prefers no node, and nothing is kept for or from it."""
        special = backed or demand.allocated or len(self.preemptor.nominations) or view.uid in self.cache.placed
        retried = self.devices.binding.tried(view.uid)
        return not special and not retried and not self.cache.has_preferences(view)

    async def _choose_from_table(self, pod: Object, view: PodView, demand: Demand, began: float) -> Decision | None:
        kind, changes = (view.shape, demand.signature), self.cache.changes
        table = self.devices.tables.get(kind, self.devices.catalog.revision)
        if table is None or not changes.knows(table.position):
            return None
        self.devices.tables.drop(kind)  # it stays away if a search fails
        changed, table.position = list(changes.since(table.position)), changes.position
        await self._update_table(table, view, demand, changed)
        if not table.scores or table.revision != self.devices.catalog.revision:
            return None
        self.devices.tables.put(kind, table)
        node = self._dice.choice(table.best())
        if demand.empty:
            return self._assume(Decision(pod, view, node, (), began))
        assignments = self.devices.reserve(demand, node, table.fits[node])
        return None if assignments is None else self._assume(Decision(pod, view, node, assignments, began))

    async def _update_table(self, table: NodeTable, view: PodView, demand: Demand, changed: list[str]) -> None:
        loads = {}
        for name in changed:
            table.drop(name)
            load = self.cache.nodes.get(name)
            if load is not None and not reasons(view, load):
                loads[name] = load
        nodes = [load.view for load in loads.values()]
        fits = await self.devices.fit.fits(demand, nodes)
        scorer = NodeScorer(view, {}, self._dice)
        for name, load in loads.items():
            if not fits[name].reason and self.cache.nodes.get(name) is load:
                table.put(name, scorer.score(load), fits[name])

    def _keep_table(
        self, scorer: NodeScorer, demand: Demand, position: int, fitting: dict[str, NodeLoad], fits: dict[str, Fit]
    ) -> None:  # fmt: skip
        table = NodeTable(position, self.devices.catalog.revision)
        for name, load in fitting.items():
            table.put(name, scorer.score(load), fits[name])
        self.devices.tables.put((scorer.pod.shape, demand.signature), table)

    async def _feasible(self, view: PodView, backed: frozenset[str]) -> tuple[dict[str, NodeLoad], Verdict]:
        """Filter nodes. An assumed pod keeps its node: its binding may have been written without a response."""
        assumed = self.cache.assumed_node(view.uid)
        if assumed:
            return {assumed: self.cache.nodes[assumed]}, {}
        fitting, rejected = await self.cache.feasible(view, backed)
        crowded = self.preemptor.crowded(view, fitting, backed)
        return {name: load for name, load in fitting.items() if name not in crowded}, rejected | crowded

    def _reserved(
        self, pod: Object, scorer: NodeScorer, demands: Demands, fitting_nodes: dict[str, NodeLoad],
        fits: dict[str, Fit], began: float,
    ) -> Decision | None:  # fmt: skip
        view = scorer.pod
        node = scorer.best(_first_choices(self.preemptor.preferred(view, fitting_nodes), fits))
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

    async def _assign(self, decision: Decision) -> tuple[Assignment, ...]:
        if not decision.assignments:
            return ()
        claims = sum(each.allocation is not None for each in decision.assignments)
        result = "overtaken"
        try:
            with span(decision.view.uid, "allocate claims", node=decision.node, claims=claims):
                written = await self.devices.assign(decision.pod, decision.assignments)
            result = "done"
        except DeviceConflict:
            result = "contested"
            raise
        finally:
            if result != "done":
                self.cache.forget(decision.view.uid)
                self.queue.changed(DEVICES)
            self.metrics.allocated(result, claims)
        return written

    async def _prepared(self, decision: Decision, written: tuple[Assignment, ...], slots: asyncio.Semaphore) -> None:
        """Wait for devices with binding conditions. Raises BindingFailed, WaitPreempted or ClaimChanged."""
        if not self.devices.binding.needed(written):
            return
        self.binder.report_preparing(decision.pod, decision.node)
        if all(each.allocation is None for each in decision.assignments):  # known by its claims, placed only now
            self.queue.changed(DEVICES)  # a pod of higher priority may preempt it
            self._wake()
        slots.release()
        result = FAILED
        try:
            with span(decision.view.uid, "binding conditions"):
                await self.devices.binding.wait(decision.pod, written)
            result = READY
        finally:
            await slots.acquire()
            self.metrics.waited(result)
            if result != READY:
                self.cache.forget(decision.view.uid)
                self.queue.changed(ROOM)

    async def _not_prepared(self, decision: Decision, written: tuple[Assignment, ...], failure: BindingFailed) -> None:
        """Deallocate what failed. The next attempt tries elsewhere; should the API be away, it deallocates as well."""
        pod = decision.pod
        self.devices.binding.node_failed(uid_of(pod), decision.node)
        try:
            await self.devices.release_failed(pod, (each.key for each in written))
        except (ApiAway, ApiError) as error:
            self._log.info("claims stay allocated for now pod=%s error=%s", key_of(pod), error)
        self._retry(pod, failure, decision.began)
        await self._report(pod, f'running PreBind plugin "DynamicResources": {failure}', REASON_ERROR)

    async def _give_way(
        self, decision: Decision, written: tuple[Assignment, ...], preempted: WaitPreempted
    ) -> None:  # fmt: skip
        """Release the claims of a pod that is preempted while it waits, and queue it again."""
        try:
            await self.devices.leave(decision.pod, (each.key for each in written))
        except (ApiAway, ApiError, TimeoutError) as error:
            self._log.info("claims stay allocated for now pod=%s error=%s", key_of(decision.pod), error)
        finally:
            self.devices.binding.gave_way(decision.view.uid)
        self._retry(decision.pod, preempted, decision.began)

    async def _bind(self, pod: Object, view: PodView, node: str) -> None:
        """Bind the pod.

        Only a definite rejection ends the assumption. After 409 (bound already, or just changed) and after silence it
        stands until the informer shows the pod, or the next attempt.
        """
        try:
            with span(view.uid, "bind", node=node):
                await self.binder.bind(pod, node)
        except ApiError as error:
            if error.code != 409:
                self.cache.forget(view.uid)
            raise
        self.queue.remove(view.uid)
        self.devices.binding.bound(view.uid)

    # failed attempts

    async def _searched(self, pod: Object, began: float, fault: TimedOut | None) -> None:
        """Follow up on a long search: its answers are known, or the pod waits."""
        if fault is None:
            self.queue.resume(uid_of(pod))
        else:
            await self._faulted(pod, fault, began)
        self._wake()

    async def _faulted(self, pod: Object, fault: AllocationFault | TimedOut, began: float) -> None:
        self.queue.retry(uid_of(pod), self._now())
        self.metrics.attempt(ERROR, time.monotonic() - began)
        await self._report(pod, str(fault), REASON_ERROR)

    def _explained(
        self, pod: Object, view: PodView, demands: Demands, nodes: list[NodeView], fits: dict[str, Fit],
        rejected: Verdict,
    ) -> str | None:  # fmt: skip
        """Return why no device suits, or None if the pod is tried again once that is known."""
        short = [node for node in nodes if fits[node.name].reason == NOT_ALLOCATABLE]
        if not short:
            return ""
        others = {name: [fit.reason] for name, fit in fits.items() if fit.reason != NOT_ALLOCATABLE}
        demand = demands[short[0].name].keeping(self.preemptor.kept(view))
        question = Question(demand, short, {**rejected, **others})
        return self.devices.explanations.explain(question, partial(self._resumed, uid_of(pod)))

    def _resumed(self, uid: str) -> None:
        self.queue.resume(uid)
        self._wake()

    async def _no_node(
        self, pod: Object, view: PodView, demand: Demand, backed: frozenset[str], rejected: Verdict,
        fits: dict[str, Fit], began: float, why: str = "",
    ) -> None:  # fmt: skip
        text = summary(len(rejected), rejected.values())
        if not rejected:
            return await self._report_unschedulable(pod, text, topics_of(demand, view), began)
        hint = await self.devices.deallocate_unused(pod, demand, fits.values())
        failed = FailedAttempt(pod, view, demand, backed, rejected, text, hint, why, began)
        if (refusal := self.preemptor.refusal(failed)) is None:
            return self.preemptor.add(failed, self._planned)
        return await self._not_preempting(failed, refusal)

    async def _planned(self, failed: FailedAttempt, plan: Plan | ApiAway | ApiError) -> None:
        """Follow up on a plan: nobody is preempted, or the pod is nominated before its victims go."""
        if isinstance(plan, Plan):
            await (
                self._preempt(failed, plan.candidate, plan) if plan.candidate else self._not_preempting(failed, plan)
            )
        else:
            self._retry(failed.pod, plan, failed.began)
        self._wake()

    async def _not_preempting(self, failed: FailedAttempt, plan: Plan) -> None:
        uid, nominated = failed.view.uid, None
        if not plan.keeps_nomination and plan.decided:
            nominated = ""
            self._end_nomination(uid)
        text = f"{failed.text} {failed.hint}, preemption: {plan.text}" if plan.text else failed.text
        text = f"{text} Devices: {failed.why}" if failed.why else text
        self._count_unschedulable(failed)
        if not plan.decided:
            self.queue.retry(uid, self._now())
        await self._report(failed.pod, text, nominated=nominated)

    def _end_nomination(self, uid: str) -> None:
        """Give others the room that was kept for a pod."""
        if self.preemptor.nominations.remove(uid) is not None:
            self.queue.changed(ROOM, DEVICES)
            self._wake()

    async def _preempt(self, failed: FailedAttempt, candidate: Candidate, plan: Plan) -> None:
        """Nominate the pod, then evict: in this order, so that after kill -9 no other victims are chosen."""
        if failed.view.uid not in self.queue:  # gone meanwhile
            return
        nomination = self.preemptor.nominate(failed, candidate, plan.devices)
        try:
            await self.binder.report_unschedulable(failed.pod, failed.text, nominated=candidate.node)
            overridden = await self.preemptor.carry_out(candidate, nomination)
        except (ApiAway, ApiError) as error:
            self._retry(failed.pod, error, failed.began)
            return
        self.metrics.preempted(len(candidate.victims))
        for uid in overridden:
            if uid in self.queue:
                self.queue.add(uid)
        self._count_unschedulable(failed)
        if not candidate.victims:  # nobody's leaving will wake it
            self.queue.retry(failed.view.uid, self._now())

    def _count_unschedulable(self, failed: FailedAttempt) -> None:
        self.queue.failed(failed.view.uid, self._now(), topics_of(failed.demand, failed.view))
        self.metrics.attempt(UNSCHEDULABLE, time.monotonic() - failed.began)

    async def _not_ready(self, pod: Object, error: ClaimsNotReady, began: float) -> None:
        uid = uid_of(pod)
        if error.expected:
            return self.queue.park(uid, error.topics)
        self._end_nomination(uid)
        nodes = len(self.cache.nodes)
        text = f"0/{nodes} nodes are available: {error}. still not schedulable, {NO_PREEMPTION.format(nodes)}"
        return await self._report_unschedulable(pod, text if nodes else summary(0, ()), error.topics, began, "")

    async def _report_unschedulable(
        self, pod: Object, message: str, topics: Topics, began: float, nominated: str | None = None
    ) -> None:  # fmt: skip
        self.queue.failed(uid_of(pod), self._now(), topics)
        self.metrics.attempt(UNSCHEDULABLE, time.monotonic() - began)
        await self._report(pod, message, nominated=nominated)

    async def _report(
        self, pod: Object, message: str, reason: str = REASON_UNSCHEDULABLE, nominated: str | None = None
    ) -> None:
        try:
            with span(uid_of(pod), "unschedulable", message=message):
                await self.binder.report_unschedulable(pod, message, reason, nominated)
        except (ApiAway, ApiError) as error:
            self._retry(pod, error, time.monotonic())

    def _retry(self, pod: Object, error: Exception, began: float) -> None:
        """Queue the pod again after a failed attempt."""
        self._log.info("scheduling attempt failed pod=%s error=%s", key_of(pod), str(error) or type(error).__name__)
        self.queue.retry(uid_of(pod), self._now())
        self.metrics.attempt(ERROR, time.monotonic() - began)

    def _now(self) -> float:
        return time.monotonic()
