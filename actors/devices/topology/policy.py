"""The four topology policies: what becomes of the hints, and whether a container is let in."""

from collections.abc import Sequence
from typing import NamedTuple

from actors.devices.topology.merge import Merging, gather, merge
from actors.devices.topology.types import Hint, ProviderHints

NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
POLICIES = (NONE, BEST_EFFORT, RESTRICTED, SINGLE)
CONTAINER, POD = "container", "pod"
SCOPES = (CONTAINER, POD)


class Verdict(NamedTuple):
    hint: Hint
    admit: bool


def decide(policy: str, providers: Sequence[ProviderHints], merging: Merging) -> Verdict:
    """`policy` is any but none, which asks for no hints."""
    resources = gather(providers)
    if policy == SINGLE:
        resources = [[hint for hint in hints if _single(hint)] for hints in resources]
    best = merge(resources, merging)
    if policy == SINGLE and best.mask == merging.numa.everything:
        best = Hint(None, best.preferred)
    return Verdict(best, policy == BEST_EFFORT or best.preferred)


def _single(hint: Hint) -> bool:
    return hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)
