"""Many resources' hints become one. The result equals trying every combination; the work does not explode with them.

A combination is preferred when every hint of it is and all its masks are equal: so the preferred ones are the masks all
resources agree on. Any of them beats all others. Of those only the nodes common to all masks matter, so combinations
that agree in these are folded into one after each resource.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from actors.devices.topology.hints import ANYWHERE, NOWHERE_GOOD, Hint, NumaInfo, ProviderHints


class Merging(NamedTuple):
    """How hints are compared on this machine."""

    numa: NumaInfo
    closest: bool = False
    """Among masks of equal size the one whose nodes lie nearest to each other, not the one with the lowest nodes."""

    def order(self, mask: int) -> tuple[int, float, int]:
        """Smaller is better: fewer nodes, then nearer ones if asked for, then lower ones."""
        return mask.bit_count(), self.numa.average_distance(mask) if self.closest else 0.0, mask


def gather(providers: Iterable[ProviderHints]) -> list[list[Hint]]:
    """One list per resource; who has no opinion is content anywhere, who sees no way is content nowhere."""
    found: list[list[Hint]] = []
    for provider in providers:
        if not provider:
            found.append([ANYWHERE])
            continue
        for hints in provider.values():
            found.append([ANYWHERE] if hints is None else hints or [NOWHERE_GOOD])
    return found


def merge(resources: Sequence[Sequence[Hint]], merging: Merging) -> Hint:
    """The best combination of one hint per resource; every node and not preferred when none leaves a common node."""
    everything = merging.numa.everything
    if agreed := _agreed(resources, everything):
        return Hint(min(agreed, key=merging.order), True)
    common = {everything}
    for hints in resources:
        masks = {everything if hint.mask is None else hint.mask for hint in hints}
        common = {before & mask for before in common for mask in masks} - {0}
    aim = _aim(resources)
    return Hint(min(common, key=lambda mask: _rank(mask, aim, merging), default=everything), False)


def _agreed(resources: Sequence[Sequence[Hint]], everything: int) -> set[int]:
    """What preferred combinations leave: masks that each resource prefers, unless it is content anywhere."""
    wishes = [{hint.mask for hint in hints if hint.preferred} for hints in resources]
    named = {mask for wish in wishes for mask in wish if mask is not None}
    agreed = {mask & everything for mask in named if all(mask in wish or None in wish for wish in wishes)}
    return (agreed | ({everything} if all(None in wish for wish in wishes) else set())) - {0}


def _aim(resources: Sequence[Sequence[Hint]]) -> int:
    """How many nodes the most demanding resource needs: without a preferred choice that many are wanted."""
    sizes = ([hint.mask.bit_count() for hint in hints if hint.mask is not None] for hints in resources)
    return max((min(found) for found in sizes if found), default=0)


def _rank(mask: int, aim: int, merging: Merging) -> tuple[int, int, tuple[int, float, int]]:
    """Where nothing is preferred: those of just the wanted size, then the largest below, then the rest."""
    order, size = merging.order(mask), mask.bit_count()
    if size == aim:
        return 0, 0, order
    return (1, -size, order) if size < aim else (2, 0, order)


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
