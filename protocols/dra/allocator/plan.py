"""What is known of a pod's claims on one node before the search: each want's devices, and how many it takes. Pure."""

from collections.abc import Mapping

import msgspec

from protocols.dra.allocator.candidates import Candidates, Slot, all_of, slots_of
from protocols.dra.allocator.checks import check
from protocols.dra.allocator.claims import ALL, Claim, Want
from protocols.dra.allocator.errors import AllocationFault
from protocols.dra.allocator.matching import Matcher
from protocols.dra.allocator.types import MAX_DEVICES, NodePool, Selectors, Usage
from protocols.dra.types import DeviceClass


class Ground(msgspec.Struct, frozen=True):
    """What a search stands on."""

    pools: tuple[NodePool, ...]
    used: Usage
    classes: Mapping[str, DeviceClass]
    engine: Selectors
    taints: bool = True
    """Taints keep devices from being allocated."""


class Way(msgspec.Struct, frozen=True):
    """One way to satisfy a request on this node."""

    want: Want
    candidates: Candidates
    need: int
    everything: bool
    """All candidates must be had; there is no choice."""


class ClaimPlan(msgspec.Struct, frozen=True):
    claim: Claim
    requests: tuple[tuple[Way, ...], ...]
    fewest: tuple[int, ...]
    """Devices that the requests from each position on take at least."""


def plan_of(claim: Claim, ground: Ground) -> ClaimPlan:
    """Raises AllocationFault."""
    check(claim, ground.classes)
    slots = slots_of(ground.pools)
    requests = tuple(tuple(_way(claim, want, slots, ground) for want in each.wants) for each in claim.requests)
    fewest = [0]
    for ways in reversed(requests):
        fewest.append(fewest[-1] + min((way.need for way in ways), default=0))
    if fewest[-1] > MAX_DEVICES:
        raise AllocationFault(
            f"claim {claim.key}: number of requested devices {fewest[-1]} exceeds the claim limit of {MAX_DEVICES}"
        )
    return ClaimPlan(claim, requests, tuple(reversed(fewest)))


def _way(claim: Claim, want: Want, slots: tuple[Slot, ...], ground: Ground) -> Way:
    matches = Matcher(want, claim.key, ground.classes, ground.engine)
    everything = want.mode == ALL
    if everything:
        slots = tuple(all_of(claim.key, want, ground.pools, matches))
    candidates = Candidates(want, slots, ground.used, matches, ground.taints)
    return Way(want, candidates, max(1, len(slots)) if everything else want.count, everything)
