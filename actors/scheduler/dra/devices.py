"""Devices in scheduling, all of it behind one door: what is free, what fits, the writes."""

import logging
from collections.abc import Callable, Iterable

from actors.scheduler.dra.claims import ClaimStore, devices_of
from actors.scheduler.dra.fitting import Fitting
from actors.scheduler.dra.gate import NOT_AVAILABLE, Gate
from actors.scheduler.dra.ledger import Ledger
from actors.scheduler.dra.types import CLASSES, DEVICES, Assignment, Demand, Fit, claim_topic
from actors.scheduler.dra.writer import ClaimWriter
from actors.scheduler.errors import ObjectUnreadable
from actors.scheduler.queue import ROOM, Topics
from actors.scheduler.types import NodeView
from protocols.dra.allocator import Catalog, allocation
from protocols.dra.allocator.selectors import CelSelectors
from protocols.dra.feed import Feed
from protocols.dra.patching.types import Gates
from protocols.dra.pods import consumers
from protocols.dra.tracker.types import Change
from protocols.kube.client import ApiClient
from protocols.kube.events import EventRecorder
from protocols.kube.informer import Informer, InformerOptions
from protocols.kube.meta import Object, key_of, uid_of
from protocols.kube.resources import RESOURCECLAIMS
from protocols.kube.times import now

Changed = Callable[..., None]
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
        self._gate = Gate(self.claims.get, self.ledger.promised, self.feed.classes, self.catalog)
        self._changed, self._log = changed, log
        self._follower = Informer(client, RESOURCECLAIMS, InformerOptions(), self)
        self.informers = [self._follower, *self.feed.informers]

    async def wait_synced(self, timeout: float) -> None:
        """Raises TimeoutError."""
        await self.feed.wait_synced(timeout)
        await self._follower.wait_synced(timeout)

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
        for old, new in changes:
            if new is not None:
                self.catalog.put(new)
            elif old is not None:
                self.catalog.remove(old.name)
        self._changed(DEVICES)

    def classes_changed(self) -> None:
        self.fitting.classes_changed()
        self._changed(CLASSES)

    # what placement asks

    def demand(self, pod: Object) -> Demand:
        """Raises NotReady, ObjectUnreadable."""
        try:
            return self._gate.demand(pod)
        except SHAPES as error:
            raise ObjectUnreadable(f"a claim of the pod has a field of the wrong shape: {error}") from None

    async def fits(self, demand: Demand, nodes: Iterable[NodeView]) -> dict[str, Fit]:
        """Raises AllocationFault, TimedOut."""
        return await self.fitting.fits(demand, nodes)

    def reserve(self, demand: Demand, node: str, fit: Fit) -> tuple[Assignment, ...] | None:
        """Promises the devices; None if one was taken meanwhile."""
        made = [Assignment(key_of(claim), uid_of(claim), None) for claim in demand.allocated]
        for claim, picks in zip(demand.wanted, fit.picks, strict=True):
            result = allocation(claim, picks, self.feed.classes, node, now())
            taken = devices_of({"status": {"allocation": result}})
            if not self.ledger.promise(claim.uid, taken):
                self.withdraw(made)
                return None
            made.append(Assignment(claim.key, claim.uid, result))
        return tuple(made)

    def withdraw(self, assignments: Iterable[Assignment]) -> None:
        for each in assignments:
            if each.allocation is not None and self.ledger.withdraw(each.uid):
                self._changed(DEVICES)

    async def assign(self, pod: Object, assignments: tuple[Assignment, ...]) -> None:
        """Raises what the writer does."""
        await self.writer.assign(pod, assignments)

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


def topics_of(demand: Demand) -> Topics:
    """What can help a pod that fits nowhere."""
    claims = (claim_topic(key_of(claim)) for claim in demand.allocated)
    wanted = (claim_topic(claim.key) for claim in demand.wanted)
    return frozenset((ROOM, *claims, *wanted, *((DEVICES, CLASSES) if demand.wanted else ())))
