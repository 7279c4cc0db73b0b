"""Taking CPUs evenly from as few NUMA nodes as it works with (option distribute-cpus-across-numa)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import pstdev
from typing import NamedTuple

from actors.devices.cpu.packed import take_packed
from actors.devices.cpu.types import Cpus, CpuTopology


class Split(NamedTuple):
    """How many CPUs each node gives."""

    shares: dict[int, int]
    balance: float
    """Spread of what is left free over the nodes of the machine: the smaller the better."""


def take_distributed(topology: CpuTopology, available: Cpus, wanted: int, group: int = 1) -> Cpus:
    """`group`: CPUs are given in packs of so many. Falls back to packing. Raises NotEnoughCpus."""
    free = {node: available & topology.in_nodes((node,)) for node in topology.nodes}
    split = None
    if wanted % group == 0 and wanted <= len(available):
        split = best_split({node: len(cpus) for node, cpus in free.items() if cpus}, wanted, group)
    if split is None:
        return take_packed(topology, available, wanted)
    taken = (take_packed(topology, free[node], share) for node, share in split.shares.items())
    return frozenset().union(*taken)


def best_split(free: Mapping[int, int], wanted: int, group: int) -> Split | None:
    """Over the smallest number of nodes that can give even shares; None when no number can."""
    order = sorted(free, key=lambda node: (free[node], node))
    for size in range(1, len(order) + 1):
        splits = [split for chosen in combinations(order, size) for split in _splits(free, chosen, wanted, group)]
        if splits:
            return min(splits, key=lambda split: split.balance)
    return None


def _splits(free: Mapping[int, int], chosen: Sequence[int], wanted: int, group: int) -> Iterator[Split]:
    """Even shares in packs, and every way to place the packs that are left over, one to a node."""
    even = wanted // len(chosen) // group * group
    packs = (wanted - even * len(chosen)) // group
    if any(free[node] < even for node in chosen):
        return
    roomy = [node for node in chosen if free[node] - even >= group]
    for extra in combinations(roomy, packs):
        shares = {node: even + (group if node in extra else 0) for node in chosen}
        left = [count - shares.get(node, 0) for node, count in free.items()]
        yield Split({node: share for node, share in shares.items() if share}, pstdev(left))
