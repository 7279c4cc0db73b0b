"""CPU topology of the machine, options of the CPU manager's static policy, and topology hints of CPUs."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from actors.devices.topology.hints import Hint, mask_of, masks_over, nodes_of

Cpus = frozenset[int]
NOTHING: Cpus = frozenset()

FULL_CORES = "full-pcpus-only"
SPREAD_NUMA = "distribute-cpus-across-numa"
BY_SOCKET = "align-by-socket"
SPREAD_CORES = "distribute-cpus-across-cores"
STRICT = "strict-cpu-reservation"
BY_CACHE = "prefer-align-cpus-by-uncorecache"


class CpuPlace(msgspec.Struct, frozen=True):
    """Position of one hardware thread."""

    core: int
    """Lowest thread number of its core, since the kernel's core_id repeats across sockets."""
    socket: int
    node: int
    cache: int = 0
    """Lowest CPU number that shares its last level cache; negative = unknown, one per NUMA node."""


class CpuTopology(msgspec.Struct, frozen=True):
    """All online CPUs."""

    places: dict[int, CpuPlace]

    @property
    def cpus(self) -> Cpus:
        return frozenset(self.places)

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(sorted({place.node for place in self.places.values()}))

    @property
    def sockets(self) -> tuple[int, ...]:
        return tuple(sorted({place.socket for place in self.places.values()}))

    @property
    def threads_per_core(self) -> int:
        """Threads of the fullest core, so that an offline sibling does not halve the figure."""
        counts: dict[int, int] = {}
        for place in self.places.values():
            counts[place.core] = counts.get(place.core, 0) + 1
        return max(counts.values(), default=1)

    def in_nodes(self, nodes: Iterable[int]) -> Cpus:
        wanted = set(nodes)
        return frozenset(cpu for cpu, place in self.places.items() if place.node in wanted)

    def siblings(self, cpus: Iterable[int]) -> Cpus:
        """Return all threads of the cores of `cpus`."""
        cores = {self.places[cpu].core for cpu in cpus if cpu in self.places}
        return frozenset(cpu for cpu, place in self.places.items() if place.core in cores)


class CpuOptions(msgspec.Struct, frozen=True):
    """Options of kubelet's static policy (`--cpu-manager-policy-options`), here by what they do."""

    full_cores: bool = False
    spread_numa: bool = False
    by_socket: bool = False
    spread_cores: bool = False
    strict: bool = False
    by_cache: bool = False


def read_options(given: Mapping[str, str]) -> CpuOptions:
    """Return the options; `given` was validated with the settings."""
    on = {name for name, value in given.items() if value == "true"}
    return CpuOptions(
        full_cores=FULL_CORES in on,
        spread_numa=SPREAD_NUMA in on,
        by_socket=BY_SOCKET in on,
        spread_cores=SPREAD_CORES in on,
        strict=STRICT in on,
        by_cache=BY_CACHE in on,
    )


class CpuRequest(NamedTuple):
    """A number of CPUs, and the ones from which to take them."""

    need: int
    available: Cpus
    reusable: Cpus = NOTHING
    """CPUs of init containers of the same pod."""


def cpu_hints(topology: CpuTopology, request: CpuRequest, options: CpuOptions) -> list[Hint]:
    """Return the sets of NUMA nodes with enough free CPUs.

    A set is preferred if no smaller one could hold the request on an empty machine.
    """
    nodes, usable = topology.nodes, request.available | request.reusable
    reused = mask_of(topology.places[cpu].node for cpu in request.reusable if cpu in topology.places)
    there, free = _by_node(topology, topology.cpus), _by_node(topology, usable)
    least, possible = len(nodes), []
    for mask in masks_over(nodes):
        members = nodes_of(mask)
        if sum(there[node] for node in members) >= request.need:
            least = min(least, len(members))
        if reused & ~mask == 0 and sum(free[node] for node in members) >= request.need:
            possible.append(mask)
    return [Hint(mask, _preferred(topology, mask, least, options)) for mask in possible]


def _by_node(topology: CpuTopology, cpus: Cpus) -> Counter[int]:
    return Counter(topology.places[cpu].node for cpu in cpus if cpu in topology.places)


def _preferred(topology: CpuTopology, mask: int, least: int, options: CpuOptions) -> bool:
    if mask.bit_count() == least:
        return True
    return options.by_socket and len(sockets_of(topology, mask)) == _sockets_needed(topology, least)


def _sockets_needed(topology: CpuTopology, nodes: int) -> int:
    """Return how many sockets that many nodes fill, or -1 if there are more sockets than nodes."""
    per_socket = len(topology.nodes) // max(1, len(topology.sockets))
    return -(-nodes // per_socket) if per_socket else -1


def sockets_of(topology: CpuTopology, mask: int) -> set[int]:
    """Return the sockets of the NUMA nodes in the bit mask."""
    return {place.socket for place in topology.places.values() if mask >> place.node & 1}
