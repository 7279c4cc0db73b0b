"""One pod's way to a node: the decision, which is made for one pod at a time, and what is written for it, which may
take long and is done for many at once.

A promise (room on a node, devices) is made with the decision, so that the next pod is not given the same.
"""

import logging
import time
from dataclasses import dataclass

from actors.scheduler.binder import SCHEDULER_ERROR, Binder
from actors.scheduler.cache import Cache
from actors.scheduler.dra.devices import Demands, Devices, topics_of
from actors.scheduler.dra.errors import Contested, NotReady, Overtaken
from actors.scheduler.dra.types import DEVICES, Assignment, Demand, Fit
from actors.scheduler.errors import ObjectUnreadable
from actors.scheduler.fit import explained
from actors.scheduler.metrics import ERROR, SCHEDULED, UNSCHEDULABLE, SchedulerMetrics
from actors.scheduler.queue import ANY_ROOM, Queue, Topics
from actors.scheduler.score import best
from actors.scheduler.types import NodeLoad, PodView
from actors.scheduler.views import pod_view
from protocols.dra.allocator import AllocationFault, TimedOut
from protocols.kube.client import ApiAway, ApiError, Object
from protocols.kube.meta import key_of, uid_of

NO_PREEMPTION = "preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."
REFUSED = (403, 422)
"""What people should know of: no later try will fare better by itself."""
Verdict = dict[str, list[str]]
"""Node -> why it is not."""


@dataclass(frozen=True)
class Decision:
    pod: Object
    view: PodView
    node: str
    assignments: tuple[Assignment, ...] = ()
    began: float = 0.0


class Placement:
    def __init__(
        self, cache: Cache, queue: Queue, binder: Binder, devices: Devices, metrics: SchedulerMetrics,
        log: logging.Logger,
    ) -> None:  # fmt: skip
        self.cache, self.queue, self.binder = cache, queue, binder
        self.devices, self.metrics, self._log = devices, metrics, log

    async def decide(self, pod: Object) -> Decision | None:
        """Where the pod goes; None when it has to wait, which its queue knows and people were told."""
        uid, began = uid_of(pod), time.monotonic()
        try:
            return await self._choose(pod, pod_view(pod), began)
        except ObjectUnreadable as error:
            await self._refuse(pod, str(error), ANY_ROOM, began)
        except NotReady as why:
            await self._not_ready(pod, why, began)
        except (AllocationFault, TimedOut) as fault:
            self.queue.retry(uid, self._now())
            self.metrics.attempt(ERROR, time.monotonic() - began)
            await self._told(pod, str(fault), SCHEDULER_ERROR)
        except (ApiAway, ApiError) as error:
            self._again(pod, error, began)
        return None

    async def carry_out(self, decision: Decision) -> bool:
        """Writes it; False when it has to be decided anew."""
        pod, view = decision.pod, decision.view
        try:
            await self._assign(decision)
            await self._bind(pod, view, decision.node)
        except (ApiAway, ApiError, Overtaken, Contested, TimeoutError) as error:
            self._again(pod, error, decision.began)
            if isinstance(error, ApiError) and error.code in REFUSED:
                await self._told(pod, str(error), SCHEDULER_ERROR)
            return False
        self.metrics.attempt(SCHEDULED, time.monotonic() - decision.began)
        return True

    # the decision

    async def _choose(self, pod: Object, view: PodView, began: float) -> Decision | None:
        backed = self.devices.backed(view)
        if backed:
            await self.devices.tidy(pod)
        demand = self.devices.demand(pod) if view.claims or backed else Demand()
        fitting, refused = self._feasible(view, backed)
        nodes = [load.view for load in fitting.values()]
        demands = self.devices.demands(pod, demand, backed, nodes) if backed else dict.fromkeys(fitting, demand)
        if demand.empty and not backed:
            if fitting:
                return self._promise(Decision(pod, view, best(view, fitting), (), began))
            await self._refuse(pod, explained(len(refused), refused.values()), topics_of(demand, view), began)
            return None
        fits = await self.devices.fits(demands, nodes)
        good = {name: load for name, load in fitting.items() if not fits[name].reason}
        if good:
            return self._reserved(pod, view, demands, good, fits, began)
        refused |= {name: [fit.reason] for name, fit in fits.items()}
        await self._no_node(pod, view, demand, refused, fits, began)
        return None

    def _feasible(self, view: PodView, backed: frozenset[str]) -> tuple[dict[str, NodeLoad], Verdict]:
        """A pod that was promised a node keeps it: the binding may have been written although no answer came."""
        promised = self.cache.promised(view.uid)
        return ({promised: self.cache.nodes[promised]}, {}) if promised else self.cache.feasible(view, backed)

    def _reserved(
        self, pod: Object, view: PodView, demands: Demands, good: dict[str, NodeLoad], fits: dict[str, Fit],
        began: float,
    ) -> Decision | None:  # fmt: skip
        node = best(view, good, {name: fits[name].score for name in good})
        assignments = self.devices.reserve(demands[node], node, fits[node])
        if assignments is None:  # news came between the search and now
            self.queue.gated(view.uid, ANY_ROOM)
            self.queue.add(view.uid)
            return None
        return self._promise(Decision(pod, view, node, assignments, began))

    def _promise(self, decision: Decision) -> Decision:
        self.cache.place(decision.node, decision.view)
        return decision

    # what is written

    async def _assign(self, decision: Decision) -> None:
        if not decision.assignments:
            return
        claims = sum(each.allocation is not None for each in decision.assignments)
        result = "overtaken"
        try:
            await self.devices.assign(decision.pod, decision.assignments)
            result = "done"
        except Contested:
            result = "contested"
            raise
        finally:
            if result != "done":
                self.cache.forget(decision.view.uid)
                self.queue.changed(DEVICES)
            self.metrics.allocated(result, claims)

    async def _bind(self, pod: Object, view: PodView, node: str) -> None:
        """Only a refusal for good takes the promise back: after 409 (bound already, or just changed) and after silence
        it stands until the informer tells, or the next try."""
        try:
            await self.binder.bind(pod, node)
        except ApiError as error:
            if error.code != 409:
                self.cache.forget(view.uid)
            raise
        self.queue.remove(view.uid)

    # waiting

    async def _no_node(
        self, pod: Object, view: PodView, demand: Demand, refused: Verdict, fits: dict[str, Fit], began: float
    ) -> None:  # fmt: skip
        self.queue.failed(uid_of(pod), self._now(), topics_of(demand, view))
        done = await self.devices.make_way(pod, demand, fits.values())
        nodes = len(refused)
        text = explained(nodes, refused.values())
        self.metrics.attempt(UNSCHEDULABLE, time.monotonic() - began)
        await self._told(pod, f"{text} {done}, {NO_PREEMPTION.format(nodes)}" if nodes else text)

    async def _not_ready(self, pod: Object, why: NotReady, began: float) -> None:
        uid = uid_of(pod)
        if why.quiet:
            return self.queue.gated(uid, why.topics)
        nodes = len(self.cache.nodes)
        text = f"0/{nodes} nodes are available: {why}. still not schedulable, {NO_PREEMPTION.format(nodes)}"
        return await self._refuse(pod, text if nodes else explained(0, ()), why.topics, began)

    async def _refuse(self, pod: Object, why: str, topics: Topics, began: float) -> None:
        self.queue.failed(uid_of(pod), self._now(), topics)
        self.metrics.attempt(UNSCHEDULABLE, time.monotonic() - began)
        await self._told(pod, why)

    async def _told(self, pod: Object, why: str, *reason: str) -> None:
        try:
            await self.binder.refuse(pod, why, *reason)
        except (ApiAway, ApiError) as error:
            self._again(pod, error, time.monotonic())

    def _again(self, pod: Object, error: Exception, began: float) -> None:
        """The try itself broke."""
        self._log.info("pod %s: %s", key_of(pod), str(error) or type(error).__name__)
        self.queue.retry(uid_of(pod), self._now())
        self.metrics.attempt(ERROR, time.monotonic() - began)

    def _now(self) -> float:
        return time.monotonic()
