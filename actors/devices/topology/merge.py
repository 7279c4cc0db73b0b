"""Many resources' hints become one. The result equals trying every combination; the work does not explode with them.

Only three things of a combination matter: the nodes common to all its masks, whether every hint of it is preferred,
and whether its masks are all equal. So combinations that agree in these are folded into one after each resource.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from actors.devices.topology.types import ANYWHERE, NOWHERE_GOOD, Hint, NumaInfo, ProviderHints


class Merging(NamedTuple):
    """How hints are compared on this machine."""

    numa: NumaInfo
    closest: bool = False
    """Among masks of equal size the one whose nodes lie nearest to each other, not the one with the lowest nodes."""

    def order(self, mask: int) -> tuple[int, float, int]:
        """Smaller is better: fewer nodes, then nearer ones if asked for, then lower ones."""
        return mask.bit_count(), self.numa.average_distance(mask) if self.closest else 0.0, mask


class _Fold(NamedTuple):
    common: int
    first: int | None
    """The mask all others equal; None while there is none, or once it no longer matters."""
    preferred: bool


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
    folds = {_Fold(everything, None, True)}
    for hints in resources:
        folds = {fold for before in folds for hint in hints if (fold := _step(before, hint)).common}
    aim = _aim(resources)
    best = min(folds, key=lambda fold: _rank(fold, aim, merging), default=None)
    return Hint(everything, False) if best is None else Hint(best.common, best.preferred)


def _step(before: _Fold, hint: Hint) -> _Fold:
    equal = hint.mask is None or before.first is None or hint.mask == before.first
    preferred = before.preferred and hint.preferred and equal
    common = before.common if hint.mask is None else before.common & hint.mask
    first = before.first if hint.mask is None or before.first is not None else hint.mask
    return _Fold(common, first if preferred else None, preferred)


def _aim(resources: Sequence[Sequence[Hint]]) -> int:
    """How many nodes the most demanding resource needs: without a preferred choice that many are wanted."""
    sizes = ([hint.mask.bit_count() for hint in hints if hint.mask is not None] for hints in resources)
    return max((min(found) for found in sizes if found), default=0)


def _rank(fold: _Fold, aim: int, merging: Merging) -> tuple[int, int, tuple[int, float, int]]:
    """Preferred ones first; of the others those of just the wanted size, then the largest below, then the rest."""
    order, size = merging.order(fold.common), fold.common.bit_count()
    if fold.preferred:
        return 0, 0, order
    if size == aim:
        return 1, 0, order
    return (2, -size, order) if size < aim else (3, 0, order)
