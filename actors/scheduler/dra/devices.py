"""Devices in scheduling, all of it behind one door: what is free, what fits, the writes."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

import msgspec

from actors.scheduler.dra.claims import ClaimStore, devices_of
from actors.scheduler.dra.errors import NotReady
from actors.scheduler.dra.extended import LEFT_OVER, backed, backing, extended_claim, named_claim
from actors.scheduler.dra.fitting import Fitting
from actors.scheduler.dra.gate import NOT_AVAILABLE, Gate
from actors.scheduler.dra.ledger import Ledger
from actors.scheduler.dra.types import CLASSES, DEVICES, Assignment, Demand, Fit, claim_topic
from actors.scheduler.dra.writer import ClaimWriter
from actors.scheduler.errors import ObjectUnreadable
from actors.scheduler.queue import ROOM, Topics
from actors.scheduler.types import NodeView, PodView
from protocols.dra.allocator import Catalog, allocation
from protocols.dra.allocator.selectors import CelSelectors
from protocols.dra.feed import Feed
from protocols.dra.patching.types import Gates
from protocols.dra.pods import allocation_of, consumers
from protocols.dra.tracker.types import Change
from protocols.kube.client import ApiClient
from protocols.kube.events import EventRecorder
from protocols.kube.informer import Informer, InformerOptions
from protocols.kube.meta import Object, key_of, uid_of
from protocols.kube.resources import RESOURCECLAIMS
from protocols.kube.times import now

Changed = Callable[..., None]
Demands = Mapping[str, Demand]
"""Node -> what is asked of it."""
SHAPES = (TypeError, ValueError, AttributeError, KeyError)
"""What reading an object of the wrong shape raises; the API lets none in, another server might."""


class Devices:
    """`changed` is told the topics of what happened, once it is in the caches."""

    def __init__(
        self, client: ApiClient, gates: Gates, changed: Changed, log: logging.Logger, recorder: EventRecorder
    ) -> None:
        self.catalog, self.ledger, self.engine = Catalog(), Ledger(), CelSelectors()
        self.claims = ClaimStore(self.ledger)
        self.feed = Feed(client, gates, self, log, recorder)
        self.writer = ClaimWriter(client, self.claims, self.ledger, log)
        self.fitting = Fitting(self.catalog, self.ledger, self.feed.classes, self.engine, gates.taints)
        self._backing: dict[str, str] = {}
        self._gate = Gate(self.claims.get, self.ledger.promised, self.feed.classes, self.catalog, gates.taints)
        self._changed, self._log = changed, log
        self._follower = Informer(client, RESOURCECLAIMS, InformerOptions(), self)
        self.informers = [self._follower, *self.feed.informers]

    async def wait_synced(self, timeout: float) -> None:
        """Raises TimeoutError."""
        await self.feed.wait_synced(timeout)
        async with asyncio.timeout(timeout):
            await self._follower.wait_known()

    # what the API tells

    def on_add(self, obj: Object) -> None:
        self._saw(obj)

    def on_update(self, old: Object, new: Object) -> None:
        self._saw(new)

    def on_delete(self, obj: Object) -> None:
        freed = self.claims.gone(obj)
        self._changed(claim_topic(key_of(obj)), *((DEVICES,) if freed else ()))

    def _saw(self, claim: Object) -> None:
        try:
            freed = self.claims.saw(claim, ordered=not self._follower.listing)
        except SHAPES as error:
            self._log.warning("claim %s has a field of the wrong shape, it counts as none: %s", key_of(claim), error)
            freed = self.claims.gone(claim)
        self._changed(claim_topic(key_of(claim)), *((DEVICES,) if freed else ()))

    def slices_changed(self, changes: list[Change]) -> None:
        for change in changes:
            self.catalog.change(*change)
        self._changed(DEVICES)

    def classes_changed(self) -> None:
        self.fitting.classes_changed()
        self._backing = backing(self.feed.classes.values())
        self._changed(CLASSES)

    # what placement asks

    def demand(self, pod: Object) -> Demand:
        """Raises NotReady, ObjectUnreadable."""
        try:
            return self._gate.demand(pod)
        except SHAPES as error:
            raise ObjectUnreadable(f"a claim of the pod has a field of the wrong shape: {error}") from None

    def backed(self, view: PodView) -> frozenset[str]:
        """Resources that a class stands for on nodes that have none of their own."""
        return backed(view, self._backing)

    async def tidy(self, pod: Object) -> None:
        """Claims for extended resources of attempts that came to nothing go first. Raises NotReady, ApiError and
        ApiAway."""
        named = named_claim(pod)
        made = self.claims.of_extended(pod)
        lost = [claim for claim in made if key_of(claim) != named or allocation_of(claim) is None]
        for claim in lost:
            await self.writer.discard(claim, uid_of(pod))
        if lost:
            raise NotReady(LEFT_OVER, frozenset(claim_topic(key_of(claim)) for claim in lost), quiet=True)

    def demands(self, pod: Object, demand: Demand, resources: frozenset[str], nodes: Iterable[NodeView]) -> Demands:
        """What is asked of each node: where it lacks a resource that a class stands for, devices of that class."""
        if any(key_of(claim) == named_claim(pod) for claim in demand.allocated):
            resources = frozenset()
        made: dict[frozenset[str], Demand] = {frozenset(): demand}
        found = {}
        for node in nodes:
            lacks = frozenset(name for name in resources if not node.allocatable.get(name))
            if lacks not in made:
                made[lacks] = self._extended(pod, demand, lacks)
            found[node.name] = made[lacks]
        return found

    def _extended(self, pod: Object, demand: Demand, resources: frozenset[str]) -> Demand:
        claim = extended_claim(pod, resources, self._backing)
        asked = [[each.name, each.wants[0].class_name, each.wants[0].count] for each in claim.claim.requests]
        signature = msgspec.json.encode([demand.signature.decode(), asked])
        return Demand(demand.allocated, (*demand.wanted, claim.claim), signature, claim)

    async def fits(self, demands: Demands, nodes: Iterable[NodeView]) -> dict[str, Fit]:
        """Raises AllocationFault, TimedOut."""
        groups: dict[int, tuple[Demand, list[NodeView]]] = {}
        for node in nodes:
            demand = demands[node.name]
            groups.setdefault(id(demand), (demand, []))[1].append(node)
        found: dict[str, Fit] = {}
        for demand, members in groups.values():
            found |= await self.fitting.fits(demand, members)
        return found

    def reserve(self, demand: Demand, node: str, fit: Fit) -> tuple[Assignment, ...] | None:
        """Promises the devices; None if one was taken meanwhile."""
        made = [Assignment(key_of(claim), uid_of(claim), None) for claim in demand.allocated]
        for claim, picks in zip(demand.wanted, fit.picks, strict=True):
            result = allocation(claim, picks, self.feed.classes, node, now())
            taken = devices_of({"status": {"allocation": result}})
            if not self.ledger.promise(claim.uid, taken):
                self.withdraw(made)
                return None
            new = demand.extended if demand.extended and demand.extended.claim is claim else None
            made.append(Assignment(claim.key, claim.uid, result, new))
        return tuple(made)

    def withdraw(self, assignments: Iterable[Assignment]) -> None:
        for each in assignments:
            if each.allocation is not None and self.ledger.withdraw(each.uid):
                self._changed(DEVICES)

    async def assign(self, pod: Object, assignments: tuple[Assignment, ...]) -> None:
        """Raises what the writer does."""
        last = assignments[-1] if assignments else None
        if last is None or last.extended is None:
            return await self.writer.assign(pod, assignments)
        made = await self.writer.make(pod, last, last.extended)
        await self.writer.assign(pod, (*assignments[:-1], made))
        return await self.writer.write_down(pod, last.extended, made.key)

    async def make_way(self, pod: Object, demand: Demand, fits: Iterable[Fit]) -> str:
        """A claim that keeps the pod from nodes and that nobody uses is allocated anew; upstream's word for what was
        done. Raises ApiError, ApiAway."""
        if any(fit.reason == NOT_AVAILABLE for fit in fits):
            for claim in demand.allocated:
                if all(each.get("uid") == uid_of(pod) for each in consumers(claim)):
                    if await self.writer.deallocate(claim, uid_of(pod)):
                        return "deallocation of ResourceClaim completed"
                    break
        return "still not schedulable"


def topics_of(demand: Demand, view: PodView) -> Topics:
    """What can help a pod that fits nowhere. For extended resources a class may come to stand."""
    claims = (claim_topic(key_of(claim)) for claim in demand.allocated)
    wanted = (claim_topic(claim.key) for claim in demand.wanted)
    extended = any("/" in name for name in view.requests)
    return frozenset((ROOM, *claims, *wanted, *((DEVICES, CLASSES) if demand.wanted or extended else ())))
