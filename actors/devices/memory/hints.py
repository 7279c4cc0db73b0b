"""Topology hints of memory: all types of one request share the same sets of nodes."""

from collections.abc import Callable, Iterator, Mapping

from actors.devices.memory.types import NodeMemory, Nodes
from actors.devices.topology.types import Hint, masks_over, nodes_of

Request = Mapping[str, int]
"""Bytes by type."""
Reusable = Callable[[int, str], int]
"""What init containers of the same pod had of a type on just these nodes."""


def memory_hints(nodes: Nodes, request: Request, reusable: Reusable) -> list[Hint]:
    """Preferred: none could be smaller, were the machine empty. Sets that break a group are not offered."""
    fitting = list(_large_enough(nodes, request))
    least = min((mask.bit_count() for mask in fitting), default=len(nodes))
    possible = [mask for mask in fitting if _allowed(nodes, mask) and _has_room(nodes, request, mask, reusable)]
    return [Hint(mask, mask.bit_count() == least) for mask in possible]


def satisfies(nodes: Nodes, mask: int, request: Request) -> bool:
    return all(_sum(nodes, mask, kind, _free) >= size for kind, size in request.items())


def breaks_group(nodes: Nodes, mask: int) -> bool:
    """A node that serves requests of its own cannot serve groups as well, nor two groups at once."""
    return not _allowed(nodes, mask)


def _large_enough(nodes: Nodes, request: Request) -> Iterator[int]:
    for mask in masks_over(nodes):
        if all(_sum(nodes, mask, kind, _allocatable) >= size for kind, size in request.items()):
            yield mask


def _allowed(nodes: Nodes, mask: int) -> bool:
    members = nodes_of(mask)
    if len(members) == 1:
        return len(nodes[members[0]].group) <= 1
    return all(not nodes[node].assignments or nodes[node].group == tuple(members) for node in members)


def _has_room(nodes: Nodes, request: Request, mask: int, reusable: Reusable) -> bool:
    return all(_sum(nodes, mask, kind, _free) + reusable(mask, kind) >= size for kind, size in request.items())


def _sum(nodes: Nodes, mask: int, kind: str, amount: Callable[[NodeMemory, str], int]) -> int:
    return sum(amount(nodes[node], kind) for node in nodes_of(mask))


def _free(node: NodeMemory, kind: str) -> int:
    return node.tables[kind].free if kind in node.tables else 0


def _allocatable(node: NodeMemory, kind: str) -> int:
    return node.tables[kind].allocatable if kind in node.tables else 0
