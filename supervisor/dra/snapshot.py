"""DRA objects at one moment: the patched devices, and where the scheduler's allocator would place claims."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from protocols.dra.allocator.attempt import Attempt, AttemptOptions
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.allocator.claims import claim_of
from protocols.dra.allocator.plan import AllocatorInputs, CelSelectors
from protocols.dra.allocator.result import allocation
from protocols.dra.allocator.shares import HeldDevices, added, held_by_picks, held_by_results
from protocols.dra.allocator.types import AllocationFault, Node, NodeFault, Pick, TimedOut
from protocols.dra.decode import class_of, patch_of, rule_of, slice_reader
from protocols.dra.gates import Gates
from protocols.dra.pods import results_of
from protocols.dra.tracker.faults import PatchFaultReport
from protocols.dra.tracker.tracker import Tracker
from protocols.dra.types import DeviceId, ObjectUnreadable, Slice
from protocols.kube.errors import SHAPE_ERRORS
from protocols.kube.meta import Object
from supervisor.base.errors import UsageError
from supervisor.dra.explain import Explanation, explain, place, published
from supervisor.dra.shares import CapacityUse, capacity_use

KINDS = ("ResourceSlice", "ResourceSlicePatch", "DeviceTaintRule", "DeviceClass")
"""Kinds that a snapshot is made of."""


@dataclass
class DeviceSnapshot:
    """Devices of all slices with patches and rules applied."""

    tracker: Tracker
    held: HeldDevices
    """Devices that ResourceClaims hold; admin access holds none."""
    unreadable: list[str] = field(default_factory=list)
    """A line for each object that cannot be decoded; another server may have admitted it."""

    @cached_property
    def catalog(self) -> Catalog:
        catalog = Catalog()
        for resource_slice in self.tracker.slices():
            catalog.put(resource_slice)
        return catalog

    def devices(self) -> Iterator[tuple[Slice, int]]:
        """Yield published slices with the index of each device, sorted by driver, pool and name."""
        slices = sorted(self.tracker.published.values(), key=lambda each: (each.driver, each.pool, each.name))
        for each in slices:
            for at in sorted(range(len(each.devices)), key=lambda at, each=each: each.devices[at].name):  # type: ignore[misc]  # called within the iteration
                yield each, at

    def explanations(self, wanted: str = "") -> list[Explanation]:
        """Explain all devices, or those named `wanted`: DEVICE or DRIVER/POOL/DEVICE."""
        return [
            explain(self.tracker, pool_slice, pool_slice.devices[at])
            for pool_slice, at in self.devices()
            if wanted
            in (
                "",
                pool_slice.devices[at].name,
                str(DeviceId(pool_slice.driver, pool_slice.pool, pool_slice.devices[at].name)),
            )
        ]

    def as_published(self) -> list[Explanation]:
        explanations = []
        for pool_slice, at in self.devices():
            device = pool_slice.devices[at]
            id = str(DeviceId(pool_slice.driver, pool_slice.pool, device.name))
            entries = tuple(published(pool_slice, device))
            explanations.append(Explanation(id, pool_slice.name, place(pool_slice, device), entries, ()))
        return explanations

    def faults(self) -> list[PatchFaultReport]:
        return list(self.tracker.faults.reports())


def snapshot_of(objects: Collection[Any], gates: Gates) -> DeviceSnapshot:
    """Return the snapshot of some objects; of other kinds than DRA's, nothing is read."""
    claims = (obj for obj in objects if obj.get("kind") == "ResourceClaim")
    snapshot = DeviceSnapshot(Tracker(gates), HeldDevices(held_by_results(results_of(claim)) for claim in claims))
    put = _putters(snapshot.tracker)
    for obj in objects:
        try:
            if (kind := str(obj.get("kind"))) in put:
                put[kind](obj)
        except ObjectUnreadable as error:
            snapshot.unreadable.append(str(error))
    while not snapshot.tracker.is_settled:
        snapshot.tracker.settle()
    return snapshot


def _putters(tracker: Tracker) -> dict[str, Callable[[Object], None]]:
    read_slice = slice_reader(tracker.inputs.gates)
    slices, patches, rules, classes = KINDS
    return {
        slices: lambda obj: tracker.put_slice(read_slice(obj)),
        patches: lambda obj: tracker.put_patch(patch_of(obj)),
        rules: lambda obj: tracker.put_rule(rule_of(obj)),
        classes: lambda obj: tracker.put_class(class_of(obj)),
    }


def check_kind(obj: Object, also: tuple[str, ...] = ()) -> None:
    """Raise UsageError for an object of a kind that is not read here."""
    kind = str(obj.get("kind") or "")
    if kind not in (*KINDS, *also):
        raise UsageError(f"{kind or 'an object without kind'} is not read here; give {', '.join((*KINDS, *also))}")


ANY = "(any)"
"""Stands for a node when no slice names one."""


class Placement(msgspec.Struct, frozen=True):
    """Devices that the allocator would give to a claim."""

    claim: str
    node: str
    allocation: Object | None
    """Allocation for the claim's status; None if the claim does not fit."""
    why: str = ""
    uses: dict[str, tuple[CapacityUse, ...]] = {}
    """Shared devices of the allocation, by name: what claims consume of them together with this one."""


def placements(snapshot: DeviceSnapshot, claims: list[Object]) -> list[Placement]:
    """Allocate each claim on each node beside what is held, as if it were the only one.

    Raises UsageError for an invalid claim.
    """
    slices = list(snapshot.tracker.slices())
    names = {pool_slice.reach.node for pool_slice in slices}
    names |= {device.extras.reach.node for pool_slice in slices for device in pool_slice.devices if device.extras.reach}
    nodes = [Node(name, {"kubernetes.io/hostname": name}) for name in sorted(names - {""})] or [Node(ANY, {})]
    return [_placed(snapshot, claim, node) for claim in claims for node in nodes]


def _placed(snapshot: DeviceSnapshot, obj: Object, node: Node) -> Placement:
    try:
        claim = claim_of(_as_claim(obj))
    except SHAPE_ERRORS as error:
        raise UsageError(f"the claim cannot be read: {error!r:.200}") from None
    inputs, held = snapshot.tracker.inputs, snapshot.held
    node_inputs = AllocatorInputs(snapshot.catalog.view(node).pools, held, inputs.classes, CelSelectors(), inputs.gates)
    try:
        attempt = Attempt(AttemptOptions((claim,), node_inputs))
        fits = attempt.run()
    except (AllocationFault, NodeFault, TimedOut) as fault:
        return Placement(claim.key, node.name, None, str(fault))
    if not fits:
        return Placement(claim.key, node.name, None, "cannot allocate all claims")
    picks = attempt.picks[0]
    return Placement(claim.key, node.name, allocation(claim, picks, inputs.classes, node.name), uses=_uses(picks, held))


def _uses(picks: list[Pick], held: HeldDevices) -> dict[str, tuple[CapacityUse, ...]]:
    taken = held_by_picks(picks)
    return {
        str(pick.device.id): tuple(
            capacity_use(
                pick.device.spec.capacity, added(held.consumed(pick.device.id) or {}, taken[pick.device.id] or {})
            )
        )
        for pick in picks
        if pick.share is not None and pick.device.id in taken
    }


def _as_claim(obj: Object) -> Object:
    """Return the claim of a template, with the defaults of the server."""
    spec = obj.get("spec") or {}
    if obj.get("kind") == "ResourceClaimTemplate":
        obj = {**obj, "kind": "ResourceClaim", "spec": spec.get("spec") or {}}
    metadata = {"namespace": "default", "uid": "", **(obj.get("metadata") or {})}
    return {**obj, "metadata": metadata}
