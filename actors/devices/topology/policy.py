"""Merge the hints of many resources into one, and decide under the topology policy.

The result equals trying every combination, without the exponential work. A combination is preferred if all its hints
are and all masks are equal, so the preferred results are the masks that all resources agree on, and any of them beats
the rest. Of other combinations only the nodes common to all masks matter, so combinations with the same common nodes
are folded into one after each resource.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from actors.devices.topology.hints import ANYWHERE, NOWHERE_GOOD, Hint, NumaInfo, ProviderHints


class HintOrder(NamedTuple):
    """Order of hints on this machine."""

    numa: NumaInfo
    closest: bool = False
    """Prefer nodes close to each other over low node numbers among masks of equal size."""

    def key(self, mask: int) -> tuple[int, float, int]:
        """Return a sort key: few nodes, then close ones if `closest`, then low ones."""
        return mask.bit_count(), self.numa.average_distance(mask) if self.closest else 0.0, mask


def gather(providers: Iterable[ProviderHints]) -> list[list[Hint]]:
    """Return one list of hints per resource."""
    hint_lists: list[list[Hint]] = []
    for provider in providers:
        if not provider:
            hint_lists.append([ANYWHERE])
            continue
        for hints in provider.values():
            hint_lists.append([ANYWHERE] if hints is None else hints or [NOWHERE_GOOD])
    return hint_lists


def merge(resources: Sequence[Sequence[Hint]], order: HintOrder) -> Hint:
    """Return the best combination; all nodes, not preferred, if none has a common node."""
    everything = order.numa.everything
    if agreed := _agreed(resources, everything):
        return Hint(min(agreed, key=order.key), True)
    common = {everything}
    for hints in resources:
        masks = {everything if hint.mask is None else hint.mask for hint in hints}
        common = {before & mask for before in common for mask in masks} - {0}
    need = _largest_need(resources)
    return Hint(min(common, key=lambda mask: _rank(mask, need, order), default=everything), False)


def _agreed(resources: Sequence[Sequence[Hint]], everything: int) -> set[int]:
    """Return the results of preferred combinations: masks that each resource prefers or does not care about."""
    preferred = [{hint.mask for hint in hints if hint.preferred} for hints in resources]
    named = {mask for masks in preferred for mask in masks if mask is not None}
    agreed = {mask & everything for mask in named if all(mask in masks or None in masks for masks in preferred)}
    return (agreed | ({everything} if all(None in masks for masks in preferred) else set())) - {0}


def _largest_need(resources: Sequence[Sequence[Hint]]) -> int:
    """Return how many nodes the most demanding resource needs: the desired size without a preferred result."""
    sizes = ([hint.mask.bit_count() for hint in hints if hint.mask is not None] for hints in resources)
    return max((min(counts) for counts in sizes if counts), default=0)


def _rank(mask: int, need: int, order: HintOrder) -> tuple[int, int, tuple[int, float, int]]:
    """Return a sort key for results that are not preferred: the desired size, then the largest below, then the rest."""
    key, size = order.key(mask), mask.bit_count()
    if size == need:
        return 0, 0, key
    return (1, -size, key) if size < need else (2, 0, key)


NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
POD = "pod"
"""Scope in which the hints of all containers of a pod are merged; the other one is `container`."""


class MergedHint(NamedTuple):
    """The best common hint, and the policy's decision about it."""

    hint: Hint
    admit: bool


def decide(policy: str, providers: Sequence[ProviderHints], order: HintOrder) -> MergedHint:
    """Merge hints under a policy other than none."""
    resources = gather(providers)
    if policy == SINGLE:
        resources = [[hint for hint in hints if _single(hint)] for hints in resources]
    best = merge(resources, order)
    if policy == SINGLE and best.mask == order.numa.everything:
        best = Hint(None, best.preferred)
    return MergedHint(best, policy == BEST_EFFORT or best.preferred)


def _single(hint: Hint) -> bool:
    return hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)
