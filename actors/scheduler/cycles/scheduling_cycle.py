"""The scheduling cycle, one pod at a time: choose a node and devices.

It assumes the pod on its node and reserves its devices, so that the next pod does not get the same.
"""

import random
import time
from functools import partial

import msgspec

from actors.scheduler.affinity.filters import PodFilters
from actors.scheduler.affinity.scores import is_scored
from actors.scheduler.claims.device_fit import FITS, SearchTakesLong
from actors.scheduler.claims.devices import Demands
from actors.scheduler.cycles.binder import REASON_ERROR
from actors.scheduler.cycles.failed_attempts import FailedAttempts
from actors.scheduler.cycles.shared import Shared
from actors.scheduler.model.claim_demand import Assignment, Demand, Fit
from actors.scheduler.model.errors import (
    ClaimsNotReady,
    ObjectUnreadable,
)
from actors.scheduler.model.queue import ANY_ROOM, ROOM
from actors.scheduler.model.views import NodeLoad, PodView, pod_view
from actors.scheduler.nodes.node_cache import node_reason, reasons
from actors.scheduler.nodes.node_table import NodeTable
from actors.scheduler.nodes.scoring import NodeScorer
from actors.scheduler.preemption.planner import Verdict
from actors.scheduler.preemption.preemptor import Preemptor
from protocols.dra.allocator.types import AllocationFault, TimedOut
from protocols.kinds import views
from protocols.kube.meta import uid_of
from protocols.kubeclient.client import ApiAway, ApiError
from protocols.trace import span


class SchedulingDecision(msgspec.Struct, frozen=True):
    """The node of a pod and the devices of its claims; both are assumed and not written yet."""

    pod: views.Pod
    view: PodView
    node: str
    assignments: tuple[Assignment, ...] = ()
    began: float = 0.0


def _readable(pod: views.Pod) -> PodView:
    """Raises ObjectUnreadable."""
    view = pod_view(pod)
    if view.rules.fault:
        raise ObjectUnreadable(view.rules.fault)
    return view


def _first_choices(fitting: dict[str, NodeLoad], fits: dict[str, Fit]) -> dict[str, NodeLoad]:
    """Return the nodes with the devices that the claims list first."""
    most = max(fits[name].score for name in fitting)
    return {name: load for name, load in fitting.items() if fits[name].score == most}


class SchedulingCycle:
    """Filters, scores and chooses for one pod at a time."""

    def __init__(self, shared: Shared, dice: random.Random, preemptor: Preemptor, failed: FailedAttempts) -> None:
        self.cache, self.devices, self._volumes = shared.cache, shared.devices, shared.volumes
        self._queue, self._binder, self._dice = shared.queue, shared.binder, dice
        self._preemptor, self._failed = preemptor, failed
        self.devices.fit.verified.changed = self.cache.changes.mark

    async def run(self, pod: views.Pod) -> SchedulingDecision | None:
        """Run the scheduling cycle. Return None if the pod must wait; it is queued and the reason reported.

        An unknown exception ends this attempt only.
        """
        began = time.monotonic()
        try:
            with span(uid_of(pod), "schedule") as scheduling:
                decision = await self._choose(pod, _readable(pod), began)
                scheduling.attributes["node"] = decision.node if decision else ""
                return decision
        except ObjectUnreadable as error:
            await self._failed.report_unschedulable(pod, str(error), ANY_ROOM, began)
        except ClaimsNotReady as error:
            await self._failed.not_ready(pod, error, began)
        except SearchTakesLong as search:
            self.devices.searches.add(search, partial(self._failed.searched, pod, began))
        except (AllocationFault, TimedOut) as fault:
            await self._failed.faulted(pod, fault, began)
        except (ApiAway, ApiError) as error:
            self._failed.retry(pod, error, began)
        except Exception as error:
            self._failed.broke("scheduling cycle", pod, error, began)
            text = f"the scheduler failed, see its log: {type(error).__name__}"
            await self._failed.report(pod, text, REASON_ERROR)
        return None

    async def _choose(self, pod: views.Pod, view: PodView, began: float) -> SchedulingDecision | None:
        if await self._lost_node(pod, view):
            self._give_up(view)
            return None
        self._volumes.check(pod)
        backed = self.devices.backed(view)
        if backed:
            await self.devices.delete_leftover_claims(pod)
        demand = self.devices.demand(pod) if view.claims or backed else Demand()
        filters = await self.cache.pod_filters(view)
        alone = filters is None and not is_scored(view, self.cache.index)
        tabled = alone and self._is_tabled(view, demand, backed)
        if tabled and (decision := await self._choose_from_table(pod, view, demand, began)):
            return decision
        table = NodeTable(self.cache.changes.position, self.devices.revision)
        fitting, rejected = await self._feasible(view, backed, filters)
        fitting, preferences = await self.cache.prefer(view, fitting)
        fitting, others = await self.cache.pod_scores(view, fitting)
        known = self.cache.memos.of(view.shape, backed).scores
        scorer = NodeScorer(view, preferences, self._dice, known, others)
        nodes = [load.view for load in fitting.values()]
        demands = self.devices.demands(pod, demand, backed, nodes) if backed else dict.fromkeys(fitting, demand)
        if demand.is_empty and not backed:
            if fitting:
                if tabled:
                    self._keep_table(table, scorer, demand, fitting, dict.fromkeys(fitting, FITS))
                node = scorer.best(self._preemptor.preferred(view, fitting))
                return self._assume(SchedulingDecision(pod, view, node, (), began))
            await self._failed.no_node(pod, view, demand, backed, rejected, {}, began)
            return None
        fits = await self.devices.fits(demands, nodes, self._preemptor.kept(view))
        fitting_nodes = {name: load for name, load in fitting.items() if not fits[name].reason}
        if fitting_nodes:
            if tabled:
                self._keep_table(table, scorer, demand, fitting_nodes, fits)
            fitting_nodes = self.devices.binding.untried(view.uid, fitting_nodes)
            return self._reserved(pod, scorer, demands, fitting_nodes, fits, began)
        if self.cache.assumed_node(view.uid) and not await self._binder.is_bound(pod):
            self._give_up(view)
            return None
        why = self._failed.explained(pod, view, demands, nodes, fits, rejected)
        rejected |= {name: [fit.reason] for name, fit in fits.items()}
        if why is not None:
            await self._failed.no_node(pod, view, demand, backed, rejected, fits, began, why)
        return None

    async def _lost_node(self, pod: views.Pod, view: PodView) -> bool:
        """Return True if the pod is not bound and the node it is assumed on takes it no more."""
        assumed = self.cache.assumed_node(view.uid)
        rejected = bool(assumed) and node_reason(view, self.cache.nodes[assumed].view) != ""
        return rejected and not await self._binder.is_bound(pod)

    def _give_up(self, view: PodView) -> None:
        """End an assumption whose binding was not written: the node or the pod's claims are not as it was assumed."""
        self.cache.forget(view.uid)
        self._queue.changed(ROOM)
        self._queue.retry(view.uid, time.monotonic())

    # tables of nodes

    def _is_tabled(self, view: PodView, demand: Demand, backed: frozenset[str]) -> bool:
        """Return True if the pod is like others: it prefers no node, and nothing is kept for or from it."""
        special = backed or demand.allocated or len(self._preemptor.nominations) or view.uid in self.cache.placed
        retried = self.devices.binding.is_tried(view.uid)
        return not special and not retried and not self.cache.has_preferences(view)

    async def _choose_from_table(
        self, pod: views.Pod, view: PodView, demand: Demand, began: float
    ) -> SchedulingDecision | None:
        kind, changes = (view.shape, demand.signature), self.cache.changes
        table = self.devices.tables.get(kind, self.devices.revision)
        if table is None or not changes.is_known(table.position):
            return None
        self.devices.tables.drop(kind)  # it stays away if a search fails
        changed, table.position = list(changes.since(table.position)), changes.position
        await self._update_table(table, view, demand, changed)
        if not table.scores or table.revision != self.devices.revision:
            return None
        self.devices.tables.put(kind, table)
        node = self._dice.choice(table.best())
        if demand.is_empty:
            return self._assume(SchedulingDecision(pod, view, node, (), began))
        assignments = self.devices.reserve(demand, node, table.fits[node])
        return None if assignments is None else self._assume(SchedulingDecision(pod, view, node, assignments, began))

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
        self, table: NodeTable, scorer: NodeScorer, demand: Demand, fitting: dict[str, NodeLoad], fits: dict[str, Fit]
    ) -> None:  # fmt: skip
        for name, load in fitting.items():
            table.put(name, scorer.score(load), fits[name])
        self.devices.tables.put((scorer.pod.shape, demand.signature), table)

    # all nodes

    async def _feasible(
        self, view: PodView, backed: frozenset[str], filters: PodFilters | None
    ) -> tuple[dict[str, NodeLoad], Verdict]:  # fmt: skip
        """Filter nodes. An assumed pod keeps its node: its binding may be written, or be on its way."""
        assumed = self.cache.assumed_node(view.uid)
        if assumed:
            return {assumed: self.cache.nodes[assumed]}, {}
        fitting, rejected = await self.cache.feasible(view, backed)
        if filters is not None:
            reasons = ((name, filters.reason(load.view)) for name, load in fitting.items())
            rejected |= {name: [why] for name, why in reasons if why}
            fitting = {name: load for name, load in fitting.items() if name not in rejected}
        crowded = self._preemptor.crowded(view, fitting, backed, filters)
        return {name: load for name, load in fitting.items() if name not in crowded}, rejected | crowded

    def _reserved(
        self, pod: views.Pod, scorer: NodeScorer, demands: Demands, fitting_nodes: dict[str, NodeLoad],
        fits: dict[str, Fit], began: float,
    ) -> SchedulingDecision | None:  # fmt: skip
        view = scorer.pod
        node = scorer.best(_first_choices(self._preemptor.preferred(view, fitting_nodes), fits))
        assignments = self.devices.reserve(demands[node], node, fits[node])
        if assignments is None:  # a device was taken since the search
            self._queue.park(view.uid, time.monotonic(), ANY_ROOM)
            self._queue.add(view.uid)
            return None
        return self._assume(SchedulingDecision(pod, view, node, assignments, began))

    def _assume(self, decision: SchedulingDecision) -> SchedulingDecision | None:
        """Count the pod on its node, unless it was deleted, or bound by another, while nodes were looked at."""
        if decision.view.uid not in self._queue:
            self.devices.withdraw(decision.assignments)
            return None
        self.cache.place(decision.node, decision.view)
        return decision
