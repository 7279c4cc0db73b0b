"""Preemption of pods of lower priority for a pod that fits nowhere, beside the scheduling loop.

A plan is made in short turns while other pods are scheduled, and checked again before it is carried out: the pod is
nominated to the node, in memory at once and then in its status, and the victims are evicted. The pod is tried again as
they leave. After kill -9 the nomination says where the room goes; while victims terminate there, no others are chosen.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from actors.scheduler.affinity.filters import PodFilters
from actors.scheduler.model.nominations import Candidate, Nomination
from actors.scheduler.model.views import NodeLoad, PodView, pod_view
from actors.scheduler.nodes.node_cache import shortages
from actors.scheduler.preemption.evictor import Evictor
from actors.scheduler.preemption.planner import FailedAttempt, Planner, PreemptionPlan, World, is_preempted
from actors.scheduler.preemption.trial import ClaimUses
from protocols.dra.allocator.types import Holdings
from protocols.kinds import views
from protocols.kube.errors import SHAPE_ERRORS
from protocols.kube.meta import name_of, namespace_of, terminating, uid_of
from protocols.kubeclient.client import ApiAway, ApiError
from protocols.scheduling.host_ports import NO_PORTS, has_conflict
from protocols.scheduling.requests import add
from protocols.trace import span

NEVER = "not eligible due to preemptionPolicy=Never."
WAITING = "not eligible due to a terminating pod on the nominated node."
NAMED_VICTIMS = 5
"""Victims that the trace names."""
Done = Callable[[FailedAttempt, PreemptionPlan | Exception], Awaitable[None]]
"""Queues the pod again after an exception."""


class Preemptor:
    """Plans preemptions one after the other and carries them out; knows the nominated pods."""

    def __init__(self, world: World, evictor: Evictor) -> None:
        self._world, self._evictor = world, evictor
        self.nominations = world.nominations
        self._work: asyncio.Queue[tuple[FailedAttempt, Done]] = asyncio.Queue()

    # nominated pods

    def observe(self, pod: views.Pod, before: views.Pod | None = None) -> bool:
        """Apply a pending pod from the watch, and return True if its nomination ended.

        Only what changed there counts: our own nominations are known before.
        """
        known, node = nominated_node(before or {}), nominated_node(pod)
        mine = self.nominations.get(uid_of(pod))
        if node and node != known and (mine is None or mine.node != node):
            view = pod_view(pod)
            nomination = _nomination(pod, view, node)
            self.nominations.add(msgspec.structs.replace(nomination, unresolved=view.claims or _may_need_devices(view)))
        elif known and not node and mine is not None and mine.node == known:
            self.nominations.remove(mine.uid)
            return True
        return False

    def kept(self, pod: PodView) -> Holdings:
        """Return the devices that the pod must leave to nominated pods."""
        return self._world.kept(pod) if self.nominations else {}

    def crowded(
        self, pod: PodView, fitting: Mapping[str, NodeLoad], backed: frozenset[str], filters: PodFilters | None = None
    ) -> dict[str, list[str]]:  # fmt: skip
        """Return the nodes where the room must be left to nominated pods, with the reasons."""
        reasons = {}
        for name in self.nominations.nodes() if self.nominations else ():
            load, ahead = fitting.get(name), self._world.ahead(pod, name)
            if load is None or not ahead:
                continue
            if pod.ports and any(has_conflict(nomination.ports, pod.ports) for nomination in ahead):
                reasons[name] = [NO_PORTS]
                continue
            used = dict(load.used)
            for nomination in ahead:
                add(used, nomination.requests)
            others = self._world.with_nominated(filters, pod, load.view, ahead)
            apart = others.reason(load.view) if others is not None else ""
            if why := shortages(pod, NodeLoad(load.view, used), backed) or ([apart] if apart else []):
                reasons[name] = why
        return reasons

    def preferred(self, pod: PodView, fitting: dict[str, NodeLoad]) -> dict[str, NodeLoad]:
        """Return the node that the pod is nominated to if it fits there, else all."""
        nomination = self.nominations.get(pod.uid)
        load = fitting.get(nomination.node) if nomination else None
        return {load.view.name: load} if load is not None else fitting

    # plans

    def refusal(self, failed: FailedAttempt) -> PreemptionPlan | None:
        """Return why nobody is preempted; None if that needs a plan."""
        if not failed.view.preempts:
            return PreemptionPlan(text=NEVER, keeps_nomination=True)
        if nomination := self._waiting(failed):
            if failed.wants_devices and not nomination.devices:
                return None
            if nomination.unresolved:
                self.nominations.add(msgspec.structs.replace(nomination, unresolved=False))
            return PreemptionPlan(text=WAITING, keeps_nomination=True)
        if all(priority >= failed.view.priority for priority in self._world.cache.priorities):
            return PreemptionPlan(text=Planner(self._world, failed).summary())
        return None

    def add(self, failed: FailedAttempt, done: Done) -> None:
        """Plan beside the loop, then call `done`. The waiting pods bound the queue: each has one plan at most."""
        self._work.put_nowait((failed, done))

    async def run(self) -> None:
        """Make one plan after the other: each sees what those of higher priority keep."""
        while True:
            failed, done = await self._work.get()
            try:
                await self._preempt(failed, done)
            except Exception as error:
                await done(failed, error)

    async def _preempt(self, failed: FailedAttempt, done: Done) -> None:
        with span(failed.view.uid, "preempt") as preempting:
            result = await self._result(failed)
            if isinstance(result, PreemptionPlan) and result.candidate:
                preempting.attributes["node"] = result.candidate.node
                preempting.attributes["victims"] = " ".join(
                    f"{victim.namespace}/{victim.name}" for victim in result.candidate.victims[:NAMED_VICTIMS]
                )
            await done(failed, result)

    async def _result(self, failed: FailedAttempt) -> PreemptionPlan | ApiAway | ApiError:
        try:
            return await self._plan(failed)
        except (ApiAway, ApiError) as error:
            return error
        except SHAPE_ERRORS as error:
            return PreemptionPlan(text=f"a pod, claim or budget has a field of the wrong shape: {error}")

    async def _plan(self, failed: FailedAttempt) -> PreemptionPlan:
        planner = Planner(self._world, failed)
        if (nomination := self._waiting(failed)) is None:
            return await planner.plan()
        devices = await planner.devices_at(nomination.node)
        if self.nominations.get(nomination.uid) is nomination:
            self.nominations.add(msgspec.structs.replace(nomination, devices=devices, unresolved=False))
        return PreemptionPlan(text=WAITING, keeps_nomination=True)

    def _waiting(self, failed: FailedAttempt) -> Nomination | None:
        """Return the pod's nomination if it still waits there for pods to leave, or for their claims to be freed."""
        nomination = self.nominations.get(failed.view.uid)
        load = self._world.cache.nodes.get(nomination.node) if nomination else None
        potential = Planner(self._world, failed).potential_nodes() if load is not None else []
        if nomination is None or load is None or load not in potential:
            return None
        lower = [uid for uid, pod in load.pods.items() if pod.priority < failed.view.priority]
        leaving = any(is_preempted(self._world.pod(uid) or {}) for uid in lower)
        return nomination if leaving or (failed.wants_devices and self._has_leaving_claim(load)) else None

    def _has_leaving_claim(self, load: NodeLoad) -> bool:
        """Return True if a claim is about to be freed since all its pods are gone or terminating."""
        world, devices = self._world, self._world.devices
        uses = ClaimUses(devices.claims, devices.ledger, world.pods).of(devices.fit.pools(load.view))
        return any(all(terminating(world.pod(uid) or {}) for uid in use.users) for use in uses)

    # carrying out

    def nominate(self, failed: FailedAttempt, candidate: Candidate, devices: Holdings) -> Nomination:
        nomination = _nomination(failed.pod, failed.view, candidate.node, devices)
        self.nominations.add(nomination)
        return nomination

    async def carry_out(self, candidate: Candidate, preemptor: Nomination, overridden: list[str]) -> None:
        """Evict the victims; `overridden` gets the uids of pods of lower priority that lose their nomination there.

        Raises ApiError and ApiAway.
        """
        for nomination in self.nominations.below(preemptor.priority, candidate.node):
            self.nominations.remove(nomination.uid)
            overridden.append(nomination.uid)
            await self._evictor.clear_nomination(nomination)
        await self._evictor.evict(candidate, preemptor)


def _may_need_devices(view: PodView) -> bool:
    """Return True if devices of a class may back a resource that the pod requests."""
    return any("/" in name for name in view.requests)


def nominated_node(pod: views.Pod) -> str:
    """Return the node where room is being made for a pod; empty if none is."""
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")


def _nomination(pod: views.Pod, view: PodView, node: str, devices: Holdings | None = None) -> Nomination:
    return Nomination(
        view.uid, namespace_of(pod), name_of(pod), view.priority, node, view.requests, devices or {}, view.ports,
        view=view,
    )  # fmt: skip
