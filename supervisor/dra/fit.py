"""What a claim would be given: the scheduler's allocator on each node that the slices speak of, nothing in use."""

from typing import Any

import msgspec

from protocols.dra.allocator import (
    AllocationFault,
    Attempt,
    AttemptOptions,
    Catalog,
    Ground,
    Node,
    NodeFault,
    TimedOut,
    allocation,
    claim_of,
)
from protocols.dra.allocator.selectors import CelSelectors
from protocols.dra.tracker.tracker import Tracker
from supervisor.errors import Usage

Obj = dict[str, Any]
ANY = "(any)"
"""Stands for a node that no slice names."""


class Placement(msgspec.Struct, frozen=True):
    claim: str
    node: str
    allocation: Obj | None
    """As it would be written to the claim's status; None if it does not fit."""
    why: str = ""


def placements(tracker: Tracker, claims: list[Obj]) -> list[Placement]:
    """Of each claim on each node, one claim at a time. Raises Usage for what is no claim."""
    catalog = Catalog()
    for each in tracker.slices():
        catalog.put(each)
    names = {each.reach.node for each in tracker.slices()}
    names |= {device.extras.reach.node for each in tracker.slices() for device in each.devices if device.extras.reach}
    nodes = [Node(name, {"kubernetes.io/hostname": name}) for name in sorted(names - {""})] or [Node(ANY, {})]
    return [_placed(tracker, catalog, claim, node) for claim in claims for node in nodes]


def _placed(tracker: Tracker, catalog: Catalog, obj: Obj, node: Node) -> Placement:
    try:
        claim = claim_of(_as_claim(obj))
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise Usage(f"the claim cannot be read: {error!r:.200}") from None
    classes = tracker.inputs.classes
    ground = Ground(catalog.view(node).pools, frozenset(), classes, CelSelectors(), tracker.inputs.gates.taints)
    try:
        attempt = Attempt(AttemptOptions((claim,), ground))
        fits = attempt.run()
    except (AllocationFault, NodeFault, TimedOut) as fault:
        return Placement(claim.key, node.name, None, str(fault))
    if not fits:
        return Placement(claim.key, node.name, None, "cannot allocate all claims")
    return Placement(claim.key, node.name, allocation(claim, attempt.picks[0], classes, node.name))


def _as_claim(obj: Obj) -> Obj:
    """A template stands for the claims made from it; what a server would fill in is filled in."""
    spec = obj.get("spec") or {}
    if obj.get("kind") == "ResourceClaimTemplate":
        obj = {**obj, "kind": "ResourceClaim", "spec": spec.get("spec") or {}}
    metadata = {"namespace": "default", "uid": "", **(obj.get("metadata") or {})}
    return {**obj, "metadata": metadata}
