"""Handle attempts that found no node: report to users, preempt, and queue the pod again."""

import time
from functools import partial

from actors.scheduler.claims.device_fit import NOT_ALLOCATABLE
from actors.scheduler.claims.devices import Demands, topics_of
from actors.scheduler.claims.explanations import Question
from actors.scheduler.cycles.binder import REASON_ERROR, REASON_UNSCHEDULABLE
from actors.scheduler.cycles.metrics import ERROR, UNSCHEDULABLE
from actors.scheduler.cycles.shared import Shared
from actors.scheduler.model.claim_demand import DEVICES, Demand, Fit
from actors.scheduler.model.errors import ClaimsNotReady, VolumesNotReady
from actors.scheduler.model.nominations import Candidate
from actors.scheduler.model.pod_terms import NO_RULES
from actors.scheduler.model.queue import ANY_ROOM, ROOM, Topics
from actors.scheduler.model.views import NodeView, PodView
from actors.scheduler.nodes.node_cache import insufficient, summary
from actors.scheduler.preemption.planner import FREED_BY_PODS, FailedAttempt, PreemptionPlan, Verdict
from actors.scheduler.preemption.preemptor import Preemptor
from protocols.dra.allocator.types import AllocationFault, TimedOut
from protocols.kinds import views
from protocols.kube.meta import key_of, uid_of
from protocols.kubeclient.client import ApiAway, ApiError
from protocols.process import tasks
from protocols.trace import span

NO_PREEMPTION = "preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."

NO_STATE = "not found"
"""Ends upstream's text if volumes end an attempt: its DynamicResources then misses its own state."""


class FailedAttempts:
    """Follow-up of attempts; each method queues the pod by what it waits for."""

    def __init__(self, shared: Shared, preemptor: Preemptor) -> None:
        self._cache, self._queue, self._binder = shared.cache, shared.queue, shared.binder
        self._devices, self._metrics, self._log = shared.devices, shared.metrics, shared.log
        self._wake = shared.wake
        self._preemptor = preemptor

    async def searched(self, pod: views.Pod, began: float, fault: Exception | None) -> None:
        """Follow up on a long search: its answers are known, or the pod waits."""
        if fault is None:
            self._queue.resume(uid_of(pod))
        elif isinstance(fault, TimedOut):
            await self.faulted(pod, fault, began)
        else:
            self.broke("device search", pod, fault, began)
        self._wake()

    async def faulted(self, pod: views.Pod, fault: AllocationFault | TimedOut, began: float) -> None:
        self._queue.retry(uid_of(pod), self._now())
        self._metrics.attempt(ERROR, time.monotonic() - began)
        await self.report(pod, str(fault), REASON_ERROR)

    def explained(
        self, pod: views.Pod, view: PodView, demands: Demands, nodes: list[NodeView], fits: dict[str, Fit],
        rejected: Verdict,
    ) -> str | None:  # fmt: skip
        """Return why no device suits, or None if the pod is tried again once that is known."""
        short = [node for node in nodes if fits[node.name].reason == NOT_ALLOCATABLE]
        if not short:
            return ""
        others = {name: [fit.reason] for name, fit in fits.items() if fit.reason != NOT_ALLOCATABLE}
        demand = demands[short[0].name].keeping(self._preemptor.kept(view))
        question = Question(demand, short, {**rejected, **others})
        return self._devices.explanations.explain(question, partial(self._resumed, uid_of(pod)))

    def _resumed(self, uid: str) -> None:
        self._queue.resume(uid)
        self._wake()

    async def no_node(
        self, pod: views.Pod, view: PodView, demand: Demand, backed: frozenset[str], rejected: Verdict,
        fits: dict[str, Fit], began: float, why: str = "",
    ) -> None:  # fmt: skip
        text = summary(len(rejected), rejected.values())
        if not rejected:
            return await self.report_unschedulable(pod, text, topics_of(demand, view), began)
        hint = await self._devices.deallocate_unused(pod, demand, fits.values())
        failed = FailedAttempt(pod, view, demand, backed, rejected, text, hint, why, began)
        if (refusal := self._preemptor.refusal(failed)) is None:
            return self._preemptor.add(failed, self._planned)
        return await self._not_preempting(failed, refusal)

    async def _planned(self, failed: FailedAttempt, plan: PreemptionPlan | Exception) -> None:
        """Follow up on a plan: nobody is preempted, or the pod is nominated before its victims go."""
        if isinstance(plan, PreemptionPlan):
            await (
                self._preempt(failed, plan.candidate, plan) if plan.candidate else self._not_preempting(failed, plan)
            )
        elif not isinstance(plan, tasks.EXPECTED):
            self.broke("preemption", failed.pod, plan, failed.began)
        else:
            self.retry(failed.pod, plan, failed.began)
        self._wake()

    async def _not_preempting(self, failed: FailedAttempt, plan: PreemptionPlan) -> None:
        uid, nominated = failed.view.uid, None
        if not plan.keeps_nomination and plan.decided:
            nominated = ""
            self._end_nomination(uid)
        text = f"{failed.text} {failed.hint}, preemption: {plan.text}" if plan.text else failed.text
        text = f"{text} Devices: {failed.why}" if failed.why else text
        self._count_unschedulable(failed)
        if not plan.decided:
            self._queue.resume(uid)
        await self.report(failed.pod, text, nominated=nominated)

    def _end_nomination(self, uid: str) -> None:
        """Give others the room that was kept for a pod."""
        if self._preemptor.nominations.remove(uid) is not None:
            self._queue.changed(ROOM, DEVICES)
            self._wake()

    async def _preempt(self, failed: FailedAttempt, candidate: Candidate, plan: PreemptionPlan) -> None:
        """Nominate the pod, then evict: in this order, so that after kill -9 no other victims are chosen."""
        if failed.view.uid not in self._queue:  # gone meanwhile
            return
        nomination, overridden = self._preemptor.nominate(failed, candidate, plan.devices), list[str]()
        try:
            await self._binder.report_unschedulable(failed.pod, failed.text, nominated=candidate.node)
            await self._preemptor.carry_out(candidate, nomination, overridden)
        except (ApiAway, ApiError) as error:
            self.retry(failed.pod, error, failed.began)
            return
        finally:
            for uid in overridden:
                if uid in self._queue:
                    self._queue.add(uid)
        self._metrics.preempted(len(candidate.victims))
        self._count_unschedulable(failed)
        if not candidate.victims:  # nobody's leaving will wake it
            self._queue.resume(failed.view.uid)

    def _count_unschedulable(self, failed: FailedAttempt) -> None:
        topics = topics_of(failed.demand, failed.view)
        self._queue.failed(failed.view.uid, self._now(), topics | ANY_ROOM if _lacks_room(failed) else topics)
        self._metrics.attempt(UNSCHEDULABLE, time.monotonic() - failed.began)

    async def not_ready(self, pod: views.Pod, error: ClaimsNotReady, began: float) -> None:
        uid = uid_of(pod)
        if error.expected:
            return self._queue.park(uid, self._now(), error.topics)
        self._end_nomination(uid)
        nodes = len(self._cache.nodes)
        hint = f"still not schedulable, {NO_PREEMPTION.format(nodes)}"
        if isinstance(error, VolumesNotReady):
            hint = NO_STATE
        text = f"0/{nodes} nodes are available: {error}. {hint}"
        return await self.report_unschedulable(pod, text if nodes else summary(0, ()), error.topics, began, "")

    async def report_unschedulable(
        self, pod: views.Pod, message: str, topics: Topics, began: float, nominated: str | None = None
    ) -> None:  # fmt: skip
        self._queue.failed(uid_of(pod), self._now(), topics)
        self._metrics.attempt(UNSCHEDULABLE, time.monotonic() - began)
        await self.report(pod, message, nominated=nominated)

    async def report(
        self, pod: views.Pod, message: str, reason: str = REASON_UNSCHEDULABLE, nominated: str | None = None
    ) -> None:
        try:
            with span(uid_of(pod), "unschedulable", message=message):
                await self._binder.report_unschedulable(pod, message, reason, nominated)
        except (ApiAway, ApiError) as error:
            self.retry(pod, error, time.monotonic())

    def broke(self, kind: str, pod: views.Pod, error: Exception, began: float) -> None:
        """Report a bug and queue the pod again: an unknown exception ends one attempt of one pod, not the process."""
        tasks.failed(kind, key_of(pod), error)
        self.retry(pod, error, began)

    def retry(self, pod: views.Pod, error: Exception, began: float) -> None:
        """Queue the pod again after a failed attempt."""
        self._log.info("scheduling attempt failed pod=%s error=%s", key_of(pod), str(error) or type(error).__name__)
        self._queue.retry(uid_of(pod), self._now())
        self._metrics.attempt(ERROR, time.monotonic() - began)

    def _now(self) -> float:
        return time.monotonic()


def _lacks_room(failed: FailedAttempt) -> bool:
    """Return True if a pod that leaves may help: some node is rejected, or some rule not met, because of others."""
    reasons = (reason for why in failed.rejected.values() for reason in why)
    return failed.view.rules is not NO_RULES or any(insufficient(each) or each in FREED_BY_PODS for each in reasons)
