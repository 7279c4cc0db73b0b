"""Taking CPUs so that what is left stays as whole as possible: nodes and sockets, then cores, then single threads.

Among equals the one with the fewest free CPUs goes first, then the lower number.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import pstdev
from typing import NamedTuple

from actors.devices.cpu.topology import Cpus, CpuTopology
from actors.devices.model.errors import NotEnoughCpus

Group = Callable[[int], int]
"""Which node, socket, cache or core a CPU is part of."""


class Taking:
    """One allocation in progress."""

    def __init__(self, topology: CpuTopology, available: Cpus, wanted: int) -> None:
        self._places = topology.places
        self._free = set(available)
        self._wanted = wanted
        self.taken: set[int] = set()
        self._node: Group = lambda cpu: self._places[cpu].node
        self._socket: Group = lambda cpu: self._places[cpu].socket
        self._cache: Group = lambda cpu: self._places[cpu].cache
        self._core: Group = lambda cpu: self._places[cpu].core
        levels = [self._node, self._socket]
        self.levels = levels if len(topology.sockets) >= len(topology.nodes) else levels[::-1]
        """The smaller kind first: a node may hold several sockets, or a socket several nodes."""

    @property
    def need(self) -> int:
        return self._wanted - len(self.taken)

    def take(self, cpus: Iterable[int]) -> None:
        found = set(cpus)
        self.taken |= found
        self._free -= found

    def whole(self, group: Group) -> None:
        """Every group all of whose CPUs are free, as long as all of it is needed."""
        for cpus in self._whole_groups(group):
            if 0 < len(cpus) <= self.need:
                self.take(cpus)

    def by_cache(self) -> None:
        """Whole caches, then one cache that holds the rest, its cores kept whole."""
        self.whole(self._cache)
        if not self.need:
            return
        for cache in self._ordered(self._cache, self._free):
            cores = self._ordered(self._core, {cpu for cpu in self._free if self._cache(cpu) == cache})
            found = [cpu for core in sorted(cores) for cpu in sorted(self._free) if self._core(cpu) == core]
            if len(found) >= self.need:
                self.take(found[: self.need])
                return

    def cores(self) -> None:
        self.whole(self._core)

    def threads(self, spread: bool) -> None:
        """Single ones: first of cores that are already broken; spread over cores instead when asked for."""
        self.take((self._spread() if spread else self._packed())[: self.need])

    def _packed(self) -> list[int]:
        return [cpu for core in self._core_order() for cpu in sorted(self._free) if self._core(cpu) == core]

    def _spread(self) -> list[int]:
        """Socket by socket, one thread of each core before the second threads."""
        cores: dict[int, list[int]] = {}
        for cpu in sorted(self._free):
            cores.setdefault(self._core(cpu), []).append(cpu)
        rank = {cpu: at for own in cores.values() for at, cpu in enumerate(own)}
        place = {socket: at for at, socket in enumerate(self._level_order(self._socket))}
        return sorted(rank, key=lambda cpu: (place[self._socket(cpu)], rank[cpu], cpu))

    def _whole_groups(self, group: Group) -> list[set[int]]:
        members: dict[int, set[int]] = {}
        for cpu in self._places:
            members.setdefault(group(cpu), set()).add(cpu)
        order = self._core_order() if group is self._core else self._level_order(group)
        return [members[key] for key in order if members[key] <= self._free]

    def _level_order(self, group: Group) -> list[int]:
        """Members of the outermost level in order, those of the level below inside of each."""
        outer = self.levels[0]
        if group is outer:
            return self._ordered(outer, self._free)
        nested = (
            self._ordered(group, {cpu for cpu in self._free if outer(cpu) == key})
            for key in self._ordered(outer, self._free)
        )
        return list(dict.fromkeys(key for keys in nested for key in keys))

    def _core_order(self) -> list[int]:
        inner = self.levels[1]
        nested = (
            self._ordered(self._core, {cpu for cpu in self._free if inner(cpu) == key})
            for key in self._level_order(inner)
        )
        return list(dict.fromkeys(key for keys in nested for key in keys))

    def _ordered(self, group: Group, cpus: Iterable[int]) -> list[int]:
        """The fewest free CPUs first."""
        counts: dict[int, int] = {}
        for cpu in cpus:
            counts[group(cpu)] = counts.get(group(cpu), 0) + 1
        return sorted(counts, key=lambda key: (counts[key], key))


def take_packed(
    topology: CpuTopology, available: Cpus, wanted: int, by_cache: bool = False, spread: bool = False
) -> Cpus:
    """Raises NotEnoughCpus."""
    if wanted > len(available):
        raise NotEnoughCpus(wanted, len(available))
    taking = Taking(topology, available, wanted)
    for level in taking.levels:
        taking.whole(level)
    if by_cache and taking.need:
        taking.by_cache()
    if not spread:
        taking.cores()
    taking.threads(spread)
    return frozenset(taking.taken)


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
