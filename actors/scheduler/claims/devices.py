"""Dynamic resources in scheduling: what is free, what fits, and the writes. Named after upstream's plugin."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, cast

import msgspec

from actors.scheduler.affinity.wakeups import waits_for
from actors.scheduler.claims.binding_wait import BindingWait
from actors.scheduler.claims.claim_store import ClaimStore
from actors.scheduler.claims.claim_writer import ClaimWriter, Pods, no_pod
from actors.scheduler.claims.device_fit import DeviceFit, SearchInputs, SearchWorker
from actors.scheduler.claims.device_ledger import DeviceLedger
from actors.scheduler.claims.explanations import Explanations
from actors.scheduler.model.claim_demand import (
    CLASSES,
    DEVICES,
    NOT_AVAILABLE,
    Assignment,
    Demand,
    DemandBuilder,
    Fit,
    claim_topic,
)
from actors.scheduler.model.errors import ClaimsNotReady, ObjectUnreadable
from actors.scheduler.model.queue import NODE_CHANGE, Topics
from actors.scheduler.model.views import NodeView, PodView
from actors.scheduler.nodes.node_table import NodeTables, Revision
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.allocator.extended import TooManyRequests, backed, backing, extended_claim
from protocols.dra.allocator.plan import CelSelectors
from protocols.dra.allocator.result import allocation
from protocols.dra.allocator.shares import held_by_picks
from protocols.dra.allocator.types import Amounts, Holdings
from protocols.dra.binding import TIMEOUT_S
from protocols.dra.gates import Gates
from protocols.dra.pods import allocation_of, consumers, extended_claim_key
from protocols.dra.tracker.faults import SliceChange
from protocols.dra.tracker.feed import SliceTracker
from protocols.dra.types import Device, DeviceId, Slice
from protocols.kinds import views
from protocols.kinds.table import RESOURCECLAIMS, RESOURCESLICES
from protocols.kube.errors import SHAPE_ERRORS
from protocols.kube.meta import Object, key_of, uid_of
from protocols.kube.quantity import Quantity
from protocols.kube.times import now
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder
from protocols.kubeclient.informer import Informer, InformerOptions

Changed = Callable[..., None]
Demands = Mapping[str, Demand]
"""Demand by node."""
LEFTOVER_CLAIM = "cannot schedule extended resource claim"


REASON = "DeviceCapacityExceeded"
Consumed = Callable[[DeviceId], Amounts | None]


class DeviceOptions(msgspec.Struct, frozen=True):
    """Dependencies of DynamicResources."""

    gates: Gates
    changed: Changed
    """Called with the topics of a change, once the caches have it."""
    log: logging.Logger
    recorder: EventRecorder
    binding_timeout: float = TIMEOUT_S
    """Seconds for the preparation of devices."""
    pods: Pods = no_pod
    """Return a pod by its key, or None."""


class DynamicResources:
    """The scheduler's side of DRA: follows slices and claims, finds devices, writes allocations."""

    def __init__(self, client: ApiClient, options: DeviceOptions) -> None:
        gates, log = options.gates, options.log
        self.catalog, self.engine = Catalog(), CelSelectors()
        self.ledger = DeviceLedger(self.catalog.capacities)
        self.claims = ClaimStore(self.ledger)
        self.feed = SliceTracker(client, gates, self, log, options.recorder)
        self.writer = ClaimWriter(client, self.claims, self.ledger, log, options.pods)
        inputs = SearchInputs(self.catalog, self.ledger, self.feed.classes, self.engine, gates)
        self.fit = DeviceFit(inputs)
        self.searches = SearchWorker(self.fit)
        self.tables = NodeTables()
        self.binding = BindingWait(self.claims.get, gates.binding, options.binding_timeout)
        self.explanations = Explanations(inputs, lambda: self.revision)
        self._backing: dict[str, str] = {}
        self._demand_builder = DemandBuilder(
            self.claims.get, self.ledger.is_reserved, self.feed.classes, self.catalog, gates.taints
        )
        self._changed, self._log, self._recorder = options.changed, log, options.recorder
        self._follower = Informer(client, RESOURCECLAIMS, InformerOptions(), self)
        self.informers = [self._follower, *self.feed.informers]

    @property
    def revision(self) -> Revision:
        """Another one whenever slices or classes changed."""
        return self.catalog.revision, self.fit.class_changes

    async def wait_synced(self, timeout: float) -> None:
        """Raises TimeoutError."""
        await self.feed.wait_synced(timeout)
        async with asyncio.timeout(timeout):
            await self._follower.wait_known()

    # informer

    def on_add(self, obj: views.ResourceClaim) -> None:
        self._observe(obj)

    def on_update(self, old: views.ResourceClaim, new: views.ResourceClaim) -> None:
        self._observe(new)

    def on_delete(self, obj: views.ResourceClaim) -> None:
        freed = self.claims.remove(obj)
        self.binding.claim_changed(key_of(obj))
        self._changed(claim_topic(key_of(obj)), *((DEVICES,) if freed else ()))

    def _observe(self, claim: views.ResourceClaim) -> None:
        try:
            freed = self.claims.observe(claim, ordered=not self._follower.listing)
        except SHAPE_ERRORS as error:
            self._log.warning("claim ignored, a field has the wrong shape claim=%s error=%s", key_of(claim), error)
            freed = self.claims.remove(claim)
        self.binding.claim_changed(key_of(claim))
        self._changed(claim_topic(key_of(claim)), *((DEVICES,) if freed else ()))

    def slices_changed(self, changes: list[SliceChange]) -> None:
        for change in changes:
            self.catalog.change(*change)
            for warning in warnings_of(change, self.ledger.consumed):
                self._recorder.event(warning.slice, "Warning", REASON, warning.message, once=True)
        self._changed(DEVICES)

    def classes_changed(self) -> None:
        self.fit.classes_changed()
        self._backing = backing(self.feed.classes.values())
        self._changed(CLASSES)

    # called by placement

    def demand(self, pod: views.Pod) -> Demand:
        """Raises ClaimsNotReady or ObjectUnreadable."""
        try:
            return self._demand_builder.demand(pod)
        except SHAPE_ERRORS as error:
            raise ObjectUnreadable(f"a claim of the pod has a field of the wrong shape: {error}") from None

    def backed(self, view: PodView) -> frozenset[str]:
        """Return the requested resources that a DeviceClass backs."""
        return backed(view.requests, self._backing)

    async def delete_leftover_claims(self, pod: views.Pod) -> None:
        """Delete claims for extended resources left by failed attempts. Raises ClaimsNotReady, ApiError or ApiAway."""
        named = extended_claim_key(pod)
        claims = self.claims.of_extended(pod)
        lost = [claim for claim in claims if key_of(claim) != named or allocation_of(claim) is None]
        for claim in lost:
            await self.writer.delete(claim, uid_of(pod))
        if lost:
            raise ClaimsNotReady(LEFTOVER_CLAIM, frozenset(claim_topic(key_of(claim)) for claim in lost), expected=True)

    def demands(self, pod: views.Pod, demand: Demand, resources: frozenset[str], nodes: Iterable[NodeView]) -> Demands:
        """Return the demand by node: devices of a class where the node lacks the extended resource."""
        if any(key_of(claim) == extended_claim_key(pod) for claim in demand.allocated):
            resources = frozenset()
        by_lack: dict[frozenset[str], Demand] = {frozenset(): demand}
        by_node = {}
        for node in nodes:
            lacks = frozenset(name for name in resources if not node.allocatable.get(name))
            if lacks not in by_lack:
                by_lack[lacks] = self._extended(pod, demand, lacks)
            by_node[node.name] = by_lack[lacks]
        return by_node

    def _extended(self, pod: views.Pod, demand: Demand, resources: frozenset[str]) -> Demand:
        try:
            claim = extended_claim(pod, resources, self._backing)
        except TooManyRequests as error:
            raise ObjectUnreadable(str(error)) from None
        asked = [
            [request.name, request.subrequests[0].class_name, request.subrequests[0].count]
            for request in claim.claim.requests
        ]
        signature = msgspec.json.encode([demand.signature.decode(), asked])
        return Demand(demand.allocated, (*demand.unallocated, claim.claim), signature, claim)

    async def fits(self, demands: Demands, nodes: Iterable[NodeView], kept: Holdings | None = None) -> dict[str, Fit]:
        """Raises AllocationFault, TimedOut or SearchTakesLong."""
        one = next(iter(demands.values())) if len(set(map(id, demands.values()))) == 1 else None
        if one is not None and not one.allocated:
            return await self.fit.fits(one.keeping(kept or {}), nodes)
        fits: dict[str, Fit] = {}
        groups: dict[int, tuple[Demand, list[NodeView]]] = {}
        for node in nodes:
            demand = demands[node.name]
            groups.setdefault(id(demand), (demand, []))[1].append(node)
        for demand, members in groups.values():
            if any(map(self.binding.is_failed, demand.allocated)):
                fits |= {node.name: Fit(NOT_AVAILABLE) for node in members}
            else:
                fits |= await self.fit.fits(demand.keeping(kept or {}), members)
        return fits

    def reserve(self, demand: Demand, node: str, fit: Fit) -> tuple[Assignment, ...] | None:
        """Reserve the devices found, or return None if one was taken meanwhile."""
        assignments = [Assignment(key_of(claim), uid_of(claim), None) for claim in demand.allocated]
        for claim, picks in zip(demand.unallocated, fit.picks, strict=True):
            result = cast("views.AllocationResult", allocation(claim, picks, self.feed.classes, node, now()))
            if not self.ledger.reserve(claim.uid, held_by_picks(picks)):
                self.withdraw(assignments)
                return None
            new = demand.extended if demand.extended and demand.extended.claim is claim else None
            assignments.append(Assignment(claim.key, claim.uid, result, new))
        return tuple(assignments)

    def withdraw(self, assignments: Iterable[Assignment]) -> None:
        for assignment in assignments:
            if assignment.allocation is not None and self.ledger.release(assignment.uid):
                self._changed(DEVICES)

    async def assign(self, pod: views.Pod, assignments: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
        """Write the assignments; return them with the claims that exist now.

        Raises what ClaimWriter.assign raises, or WaitPreempted: then `leave` releases the claims.
        """
        with self.binding.interruptible(uid_of(pod)):
            return await self._written(pod, assignments)

    async def _written(self, pod: views.Pod, assignments: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
        last = assignments[-1] if assignments else None
        if last is None or last.extended is None:
            await self.writer.assign(pod, assignments)
            return assignments
        try:
            assignment = await self.writer.make(pod, last, last.extended)
        except Exception:
            self.withdraw(assignments)
            raise
        written = (*assignments[:-1], assignment)
        await self.writer.assign(pod, written)
        await self.writer.set_pod_status(pod, last.extended, assignment.key)
        return written

    async def release_failed(self, pod: views.Pod, keys: Iterable[str]) -> bool:
        """Release the pod's claims whose devices are not ready for a binding; the last consumer deallocates them.

        Return True if a claim was released. Raises ApiError or ApiAway.
        """
        claims = (self.claims.get(key) for key in keys)
        failed = [claim for claim in claims if claim is not None and self.binding.is_failed(claim)]
        done = [await self.writer.release(claim, uid_of(pod), self.binding.is_failed) for claim in failed]
        return any(done)

    async def leave(self, pod: views.Pod, keys: Iterable[str]) -> None:
        """Release the claims of a pod that is preempted before it is bound, those of extended resources as well.

        Raises ApiError, ApiAway or TimeoutError.
        """
        for claim in (*filter(None, map(self.claims.get, keys)), *self.claims.of_extended(pod)):
            await self.writer.leave(claim, uid_of(pod))

    async def deallocate_unused(self, pod: views.Pod, demand: Demand, fits: Iterable[Fit]) -> str:
        """Deallocate one claim that keeps the pod from every node and that no other pod uses.

        Return upstream's text for what was done. Raises ApiError or ApiAway.
        """
        if demand.is_empty:
            return "no new claims to deallocate"
        if any(fit.reason == NOT_AVAILABLE for fit in fits):
            if await self.release_failed(pod, map(key_of, demand.allocated)):
                return "deallocation of ResourceClaim completed"
            for claim in demand.allocated:
                unused = all(consumer.get("uid") == uid_of(pod) for consumer in consumers(claim))
                if unused and (allocation_of(claim) or {}).get("nodeSelector"):  # others are available everywhere
                    if await self.writer.deallocate(claim, uid_of(pod)):
                        return "deallocation of ResourceClaim completed"
                    break
        return "still not schedulable"


def topics_of(demand: Demand, view: PodView) -> Topics:
    """Return the topics that can help a pod that fits nowhere, besides ROOM."""
    claims = (claim_topic(key_of(claim)) for claim in demand.allocated)
    wanted = (claim_topic(claim.key) for claim in demand.unallocated)
    extended = any("/" in name for name in view.requests)
    devices = (DEVICES, CLASSES) if demand.unallocated or extended else ()
    return waits_for(view) | frozenset((NODE_CHANGE, *claims, *wanted, *devices))


class _ExcessWarning(NamedTuple):
    slice: Object
    """The slice as an event refers to it."""
    message: str


def warnings_of(change: SliceChange, consumed: Consumed) -> Iterator[_ExcessWarning]:
    """Yield a warning for each device of a changed slice that changed to less than its shares consume."""
    if change.new is None or not any(device.extras.shared for device in change.new.devices):
        return
    before = {id(device) for device in change.old.devices} if change.old is not None else set()
    for device in change.new.devices:
        if device.extras.shared and id(device) not in before:
            for text in _excesses(change.new, device, consumed):
                yield _ExcessWarning(_reference(change.new), text)


def _excesses(slice_: Slice, device: Device, consumed: Consumed) -> Iterator[str]:
    device_id = DeviceId(slice_.driver, slice_.pool, device.name)
    for name, amount in sorted((consumed(device_id) or {}).items()):
        total = device.capacity[name].value if name in device.capacity else Quantity(0)
        if amount > total.nanos:
            yield (
                f"device {device_id}: claims consume {Quantity(amount, total.format)} of {name}, which is {total} now;"
                f" nothing more is allocated until {Quantity(amount - total.nanos, total.format)} are free,"
                " and nothing is evicted"
            )


def _reference(slice_: Slice) -> Object:
    return {**RESOURCESLICES.type_meta, "metadata": {"name": slice_.name, "uid": slice_.uid}}
