"""Topology hints of CPUs."""

from collections import Counter
from typing import NamedTuple

from actors.devices.cpu.types import NOTHING, CpuOptions, Cpus, CpuTopology
from actors.devices.topology.types import Hint, mask_of, masks_over, nodes_of


class CpuRequest(NamedTuple):
    need: int
    available: Cpus
    reusable: Cpus = NOTHING
    """Of init containers of the same pod."""


def cpu_hints(topology: CpuTopology, request: CpuRequest, options: CpuOptions) -> list[Hint]:
    """Sets of nodes with enough free CPUs. Preferred: none could be smaller, were the machine empty."""
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
    """Sockets that so many nodes fill; -1 where sockets are larger in number than nodes."""
    per_socket = len(topology.nodes) // max(1, len(topology.sockets))
    return -(-nodes // per_socket) if per_socket else -1


def sockets_of(topology: CpuTopology, mask: int) -> set[int]:
    return {place.socket for place in topology.places.values() if mask >> place.node & 1}
