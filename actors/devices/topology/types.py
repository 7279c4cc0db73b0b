"""The vocabulary of topology: sets of NUMA nodes as bit masks, hints over them, and how far nodes are apart."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

import msgspec


class Hint(NamedTuple):
    """One way to place one resource."""

    mask: int | None
    """NUMA nodes as bits; None = anywhere is as good."""
    preferred: bool


ANYWHERE = Hint(None, True)
NOWHERE_GOOD = Hint(None, False)

ProviderHints = Mapping[str, list[Hint] | None] | None
"""By resource. None: no opinion. An empty list: there is no way to place it."""


def mask_of(nodes: Iterable[int]) -> int:
    mask = 0
    for node in nodes:
        mask |= 1 << node
    return mask


def nodes_of(mask: int) -> list[int]:
    return [node for node in range(mask.bit_length()) if mask >> node & 1]


def masks_over(nodes: Iterable[int]) -> Iterator[int]:
    """Every non-empty set of `nodes`, the small ones first."""
    ordered = sorted(set(nodes))
    for size in range(1, len(ordered) + 1):
        for chosen in combinations(ordered, size):
            yield mask_of(chosen)


class NumaInfo(msgspec.Struct, frozen=True):
    """The machine's NUMA nodes, and the distance from each to each (all equal where the kernel tells none)."""

    nodes: tuple[int, ...]
    distances: dict[int, dict[int, int]] = {}

    @property
    def everything(self) -> int:
        return mask_of(self.nodes)

    def average_distance(self, mask: int) -> float:
        """Over all pairs, a node with itself included."""
        nodes = nodes_of(mask)
        total = sum(self.distances.get(one, {}).get(other, 10) for one in nodes for other in nodes)
        return total / len(nodes) ** 2 if nodes else 0.0
