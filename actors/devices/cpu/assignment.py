"""Take CPUs so that the rest stays as whole as possible, as upstream's cpu_assignment.go does.

Packed: whole NUMA nodes and sockets first, then cores, then single threads; the fullest group first, then the lowest
number. Distributed: evenly from as few NUMA nodes as possible (option distribute-cpus-across-numa).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import pstdev
from typing import NamedTuple

from actors.devices.cpu.topology import Cpus, CpuTopology
from actors.devices.model.errors import NotEnoughCpus

Group = Callable[[int], int]
"""Maps a CPU to its node, socket, cache or core."""


class PackedAssignment:
    """State of one packed assignment."""

    def __init__(self, topology: CpuTopology, available: Cpus, requested: int) -> None:
        self._places = topology.places
        self._free = set(available)
        self._requested = requested
        self.taken: set[int] = set()
        self._node: Group = lambda cpu: self._places[cpu].node
        self._socket: Group = lambda cpu: self._places[cpu].socket
        self._cache: Group = lambda cpu: self._places[cpu].cache
        self._core: Group = lambda cpu: self._places[cpu].core
        levels = [self._node, self._socket]
        self.levels = levels if len(topology.sockets) >= len(topology.nodes) else levels[::-1]
        """The smaller kind first: a node may span several sockets, or a socket several nodes."""

    @property
    def need(self) -> int:
        return self._requested - len(self.taken)

    def take(self, cpus: Iterable[int]) -> None:
        chosen = set(cpus)
        self.taken |= chosen
        self._free -= chosen

    def whole(self, group: Group) -> None:
        """Take every group that is completely free, as long as all of it is needed."""
        for cpus in self._whole_groups(group):
            if 0 < len(cpus) <= self.need:
                self.take(cpus)

    def by_cache(self) -> None:
        """Take whole caches, then the rest from one cache with its cores kept whole."""
        self.whole(self._cache)
        if not self.need:
            return
        for cache in self._ordered(self._cache, self._free):
            cores = self._ordered(self._core, {cpu for cpu in self._free if self._cache(cpu) == cache})
            cpus = [cpu for core in sorted(cores) for cpu in sorted(self._free) if self._core(cpu) == core]
            if len(cpus) >= self.need:
                self.take(cpus[: self.need])
                return

    def cores(self) -> None:
        self.whole(self._core)

    def threads(self, spread: bool) -> None:
        """Take single threads, of partly used cores first; with `spread` one thread per core instead."""
        self.take((self._spread() if spread else self._packed())[: self.need])

    def _packed(self) -> list[int]:
        return [cpu for core in self._core_order() for cpu in sorted(self._free) if self._core(cpu) == core]

    def _spread(self) -> list[int]:
        """Order free CPUs by socket, the first threads of all cores before the second ones."""
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
        """Order groups by the outer level, then within it."""
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
        """Order groups by their number of free CPUs, the fewest first."""
        counts: dict[int, int] = {}
        for cpu in cpus:
            counts[group(cpu)] = counts.get(group(cpu), 0) + 1
        return sorted(counts, key=lambda key: (counts[key], key))


def take_packed(
    topology: CpuTopology, available: Cpus, requested: int, by_cache: bool = False, spread: bool = False
) -> Cpus:
    """Take `requested` CPUs, whole NUMA nodes, sockets and cores first. Raises NotEnoughCpus.

    `by_cache`: prefer CPUs that share a last-level cache. `spread`: one CPU of each core before the second.
    """
    if requested > len(available):
        raise NotEnoughCpus(requested, len(available))
    taking = PackedAssignment(topology, available, requested)
    for level in taking.levels:
        taking.whole(level)
    if by_cache and taking.need:
        taking.by_cache()
    if not spread:
        taking.cores()
    taking.threads(spread)
    return frozenset(taking.taken)


class Split(NamedTuple):
    """Number of CPUs that each node gives."""

    shares: dict[int, int]
    balance: float
    """Standard deviation of the free CPUs left per node; smaller is better."""


def take_distributed(topology: CpuTopology, available: Cpus, requested: int, group: int = 1) -> Cpus:
    """Take CPUs evenly over nodes, in multiples of `group`; fall back to packing.

    Raises:
        NotEnoughCpus: Fewer than `requested` CPUs are available.
    """
    free = {node: available & topology.in_nodes((node,)) for node in topology.nodes}
    split = None
    if requested % group == 0 and requested <= len(available):
        split = best_split({node: len(cpus) for node, cpus in free.items() if cpus}, requested, group)
    if split is None:
        return take_packed(topology, available, requested)
    taken = (take_packed(topology, free[node], share) for node, share in split.shares.items())
    return frozenset().union(*taken)


def best_split(free: Mapping[int, int], requested: int, group: int) -> Split | None:
    """Return the best even split over the smallest possible number of nodes, or None if there is none."""
    order = sorted(free, key=lambda node: (free[node], node))
    for size in range(1, len(order) + 1):
        splits = [split for chosen in combinations(order, size) for split in _splits(free, chosen, requested, group)]
        if splits:
            return min(splits, key=lambda split: split.balance)
    return None


def _splits(free: Mapping[int, int], chosen: Sequence[int], requested: int, group: int) -> Iterator[Split]:
    """Yield every split into even shares, with the groups left over placed on different nodes."""
    even = requested // len(chosen) // group * group
    packs = (requested - even * len(chosen)) // group
    if any(free[node] < even for node in chosen):
        return
    roomy = [node for node in chosen if free[node] - even >= group]
    for extra in combinations(roomy, packs):
        shares = {node: even + (group if node in extra else 0) for node in chosen}
        left = [count - shares.get(node, 0) for node, count in free.items()]
        yield Split({node: share for node, share in shares.items() if share}, pstdev(left))
