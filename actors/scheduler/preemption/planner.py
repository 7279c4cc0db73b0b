"""The plan of a preemption: on which node the pod would fit, and which pods would have to leave. Changes nothing.

Nodes are tried from a random one on, until there are enough candidates, one of them without a violated budget.
"""

import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec

from actors.scheduler.affinity.filters import CURABLE, PodFilters, with_pods
from actors.scheduler.claims.device_fit import NOT_ALLOCATABLE
from actors.scheduler.claims.device_ledger import with_kept
from actors.scheduler.claims.devices import DynamicResources
from actors.scheduler.model.claim_demand import Demand, Fit
from actors.scheduler.model.nominations import Candidate, Nomination, Nominations, Victim
from actors.scheduler.model.turns import Turns
from actors.scheduler.model.views import NodeLoad, NodeView, PodView
from actors.scheduler.nodes.node_cache import Cache, insufficient, summary
from actors.scheduler.preemption.selection import DisruptionBudget, best, budgets_of, candidate_count, select_victims
from actors.scheduler.preemption.trial import ClaimUse, ClaimUses, Rejection, Trial
from protocols.dra.allocator.shares import held_by_picks
from protocols.dra.allocator.types import Holdings
from protocols.kinds import views
from protocols.kube.meta import condition, labels_of, meta, split_key, terminating, uid_of
from protocols.kube.times import time_or
from protocols.scheduling.host_ports import NO_PORTS

NOT_HELPFUL, NO_VICTIMS = "Preemption is not helpful for scheduling", "No preemption victims found for incoming pod"
FREED_BY_PODS = CURABLE | {NO_PORTS}
PLAN_TIMEOUT_S, SEARCH_TIMEOUT_S = 10.0, 1.0
"""For a plan, and for one search for devices within it."""
TURN_S, PAUSE_S = 0.002, 0.002
"""Planning takes so long at a time; others have as much between two turns."""
Verdict = dict[str, list[str]]
"""Reasons by rejected node."""


class FailedAttempt(msgspec.Struct, frozen=True):
    """A pod that no node fits, and why."""

    pod: views.Pod
    view: PodView
    demand: Demand
    backed: frozenset[str]
    rejected: Verdict
    text: str
    """Reasons by node, as users read them."""
    hint: str
    """Result of the attempt to deallocate a claim."""
    why: str
    """Why no device suits; empty if that is not what it lacks."""
    began: float

    @property
    def wants_devices(self) -> bool:
        return bool(self.demand.unallocated or self.backed)


class PreemptionPlan(msgspec.Struct, frozen=True):
    """The candidate, or why there is none."""

    candidate: Candidate | None = None
    devices: Holdings = msgspec.field(default_factory=dict)
    text: str = ""
    keeps_nomination: bool = False
    decided: bool = True
    """False if the attempt must be repeated without a change: the world changed meanwhile, or time was up."""


class World(msgspec.Struct, frozen=True):
    """Whatever a plan reads."""

    cache: Cache
    devices: DynamicResources
    pods: Mapping[str, views.Pod]
    """All pods by key."""
    nominations: Nominations
    budgets: Callable[[], Awaitable[list[views.PodDisruptionBudget]]]
    """Raises ApiError and ApiAway."""
    dice: random.Random
    for_devices: bool
    """False if no pod has to go for the devices of its claims."""

    def ahead(self, pod: PodView, node: str) -> list[Nomination]:
        """Return the nominated pods that a pod has to leave room for."""
        ahead = self.nominations.ahead_of(pod.uid, pod.priority, node)
        return [nomination for nomination in ahead if nomination.uid not in self.cache.placed]

    def kept(self, pod: PodView) -> Holdings:
        """Return the devices that a pod must leave to nominated pods."""
        return self.nominations.devices_ahead_of(pod.uid, pod.priority, self.cache.placed)

    def with_nominated(
        self, filters: PodFilters | None, pod: PodView, node: NodeView, ahead: Iterable[Nomination]
    ) -> PodFilters | None:  # fmt: skip
        """Return the filters about other pods as if pods were placed where they are nominated to."""
        added = (nomination.view for nomination in ahead if nomination.view is not None)
        return with_pods(filters, pod, self.cache.index, added, node)

    def pod(self, uid: str) -> views.Pod | None:
        """Return a pod that is bound or assumed."""
        placed = self.cache.placed.get(uid)
        pod = self.pods.get(placed[1].key) if placed else None
        return pod if pod is not None and uid_of(pod) == uid else None


class Planner:
    """Makes one plan within PLAN_TIMEOUT_S; later nodes are not tried."""

    def __init__(self, world: World, failed: FailedAttempt) -> None:
        self._world, self._failed, self._view = world, failed, failed.view
        self._claim_uses = ClaimUses(world.devices.claims, world.devices.ledger, world.pods)
        self._turns = Turns(TURN_S, PAUSE_S)
        self._end = time.monotonic() + PLAN_TIMEOUT_S
        self._late = False
        self._reasons: dict[str, list[str]] = {}
        self._filters: PodFilters | None = None

    def potential_nodes(self) -> list[NodeLoad]:
        """Return the nodes where the pod might fit if others left."""
        known = self._world.cache.nodes
        loads = ((known.get(name), why) for name, why in self._failed.rejected.items())
        return [load for load, why in loads if load is not None and self._is_resolvable(load.view, why)]

    def summary(self) -> str:
        """Return upstream's text: `0/2 nodes are available: 2 No preemption victims found for incoming pod.`."""
        short = {load.view.name for load in self.potential_nodes() if self._is_short_of_resources(load.view.name)}
        default = {True: [NO_VICTIMS], False: [NOT_HELPFUL]}
        rejections = (self._reasons.get(name) or default[name in short] for name in self._failed.rejected)
        return summary(len(self._failed.rejected), rejections)

    async def plan(self) -> PreemptionPlan:
        """Raises ApiError and ApiAway."""
        self._filters = await self._world.cache.pod_filters(self._view)
        candidate = best(await self._candidates(self.potential_nodes()))
        if candidate is None:
            return PreemptionPlan(text=self.summary(), decided=not self._late)
        fit = await self._confirmed(candidate)
        return PreemptionPlan(decided=False) if fit is None else PreemptionPlan(candidate, _picked(fit))

    async def devices_at(self, node: str) -> Holdings:
        """Return the devices that a nominated pod gets once the pods that are leaving are gone."""
        load = self._world.cache.nodes.get(node)
        if load is None:
            return {}
        trial = self._trial(load)
        leaving = frozenset(uid for uid in trial.users() if (pod := self._world.pod(uid)) is None or terminating(pod))
        fit = await trial.fit(leaving)
        return _picked(fit) if fit is not None else {}

    # nodes

    def _is_short_of_resources(self, node: str) -> bool:
        return NOT_ALLOCATABLE not in self._failed.rejected[node]

    def _is_resolvable(self, node: NodeView, why: Iterable[str]) -> bool:
        """Return True if the removal of pods can undo all reasons against a node, as upstream."""
        if not all(insufficient(reason) or reason in FREED_BY_PODS or self._is_for_devices(reason) for reason in why):
            return False
        free = node.allocatable
        too_much = (name for name, asked in self._view.requests.items() if asked > free.get(name, 0))
        return all(name in self._failed.backed and not free.get(name) for name in too_much)

    def _is_for_devices(self, reason: str) -> bool:
        return reason == NOT_ALLOCATABLE and self._world.for_devices

    async def _candidates(self, nodes: list[NodeLoad]) -> list[Candidate]:
        candidates: list[Candidate] = []
        offset = self._world.dice.randrange(len(nodes)) if nodes else 0
        budgets: list[DisruptionBudget] | None = None
        for known in (*nodes[offset:], *nodes[:offset]):
            if time.monotonic() > self._end:
                self._late = True
                break
            if (load := self._world.cache.nodes.get(known.view.name)) is None:  # it went during the plan
                continue
            if self._failed.wants_devices and any(
                nomination.unresolved for nomination in self._world.ahead(self._view, load.view.name)
            ):
                self._late = True
                continue
            trial = self._trial(load)
            victims = self._potential_victims(load, trial)
            if not victims and not trial.uses:
                continue
            if budgets is None:
                budgets = budgets_of(await self._world.budgets()) if victims else []
            candidate = await self._select(load, trial, victims, budgets)
            if candidate is not None:
                candidates.append(candidate)
                if len(candidates) >= candidate_count(len(nodes)) and any(not each.violations for each in candidates):
                    break
        return candidates

    # one node

    def _trial(self, load: NodeLoad) -> Trial:
        world, node = self._world, load.view
        demand = self._demand(node)
        uses = self._uses(node) if demand.unallocated and world.for_devices else []
        kept = world.kept(self._view)

        async def search(freed: frozenset[str]) -> Fit | None:
            await self._turns.rest_if_due()
            used = with_kept(world.devices.ledger.without(freed), kept)
            end = min(self._end, time.monotonic() + SEARCH_TIMEOUT_S)
            fit = await world.devices.fit.fit_with(demand, node, used, end)
            self._late |= fit is None
            return fit

        ahead = world.ahead(self._view, node.name)
        rejection = self._rejection(node, ahead)
        return Trial(self._view, load, ahead, self._failed.backed, uses, search, rejection)

    def _rejection(self, node: NodeView, ahead: list[Nomination]) -> Rejection:
        """Return the rules about other pods, with and without the nominated ones, as upstream."""
        cache, filters = self._world.cache, self._filters
        both = (filters, self._world.with_nominated(filters, self._view, node, ahead) if ahead else None)
        bases = [rules for rules in both if rules is not None]

        def reason(removed: frozenset[str]) -> str:
            for base in bases:
                left = base.copy()
                for uid in removed:
                    if (placed := cache.placed.get(uid)) and (load := cache.nodes.get(placed[0])):
                        left.remove(placed[1], load.view)
                if why := left.reason(node):
                    return why
            return ""

        return reason

    def _demand(self, node: NodeView) -> Demand:
        failed = self._failed
        if not failed.backed:
            return failed.demand
        return self._world.devices.demands(failed.pod, failed.demand, failed.backed, [node])[node.name]

    def _uses(self, node: NodeView) -> list[ClaimUse]:
        """Return the claims that are freed if pods of lower priority leave."""
        uses = self._claim_uses.of(self._world.devices.fit.pools(node))
        return [use for use in uses if all(map(self._is_lower, use.users))]

    def _is_lower(self, uid: str) -> bool:
        placed = self._world.cache.placed.get(uid)
        return placed is not None and placed[1].priority < self._view.priority

    def _potential_victims(self, load: NodeLoad, trial: Trial) -> list[Victim]:
        here = [uid for uid, view in load.pods.items() if view.priority < self._view.priority]
        return [self._victim(uid) for uid in dict.fromkeys((*here, *sorted(trial.users())))]

    def _victim(self, uid: str) -> Victim:
        view = self._world.cache.placed[uid][1]
        pod = self._world.pod(uid) or {}
        namespace, name = split_key(view.key)
        generation = int(meta(pod).get("generation") or 0) if pod else 0
        created = str(meta(pod).get("creationTimestamp") or "") if pod else ""
        started, labels = _started(pod), labels_of(pod)
        return Victim(uid, namespace, name, view.priority, started, labels, terminating(pod), generation, created)

    async def _select(
        self, load: NodeLoad, trial: Trial, victims: list[Victim], budgets: list[DisruptionBudget]
    ) -> Candidate | None:
        selection = select_victims(load.view.name, victims, budgets)
        try:
            removed = next(selection)
            if not await trial.fits(removed):
                self._reasons[load.view.name] = trial.reasons(removed) or [NOT_ALLOCATABLE]
                return None
            fits = True
            while True:
                removed = selection.send(fits)
                await self._turns.rest_if_due()
                if time.monotonic() > self._end:  # who was not put back by then may not be in the way
                    self._late = True
                    return None
                fits = await trial.fits(removed)
        except StopIteration as end:
            candidate: Candidate | None = end.value
            return candidate

    async def _confirmed(self, candidate: Candidate) -> Fit | None:
        """Return the devices that the pod gets, if the plan still holds."""
        self._filters = await self._world.cache.pod_filters(self._view)
        load = self._world.cache.nodes.get(candidate.node)
        removed = frozenset(victim.uid for victim in candidate.victims)
        if load is None or not all(map(self._is_lower, removed)):
            return None
        trial = self._trial(load)
        return await trial.fit(removed) if await trial.fits(removed) else None


def _picked(fit: Fit) -> Holdings:
    return held_by_picks(pick for picks in fit.picks for pick in picks)


def _started(pod: views.Pod) -> float:
    return time_or((pod.get("status") or {}).get("startTime"), time.time())


def is_preempted(pod: views.Pod) -> bool:
    """Return True if the pod is terminating because a scheduler preempted it."""
    target = condition(pod, "DisruptionTarget") or {}
    by_scheduler = (target.get("status"), target.get("reason")) == ("True", "PreemptionByScheduler")
    return terminating(pod) and by_scheduler
