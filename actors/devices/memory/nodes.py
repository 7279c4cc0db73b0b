"""Memory of NUMA nodes, what is left after allocations, and topology hints of memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from actors.devices.topology.hints import Hint, masks_over, nodes_of
from protocols.messages.devices import AllocatedMemory

Blocks = tuple[AllocatedMemory, ...]
Holdings = Mapping[str, Mapping[str, Blocks]]
"""Blocks by pod uid and container."""


class MemoryTable(msgspec.Struct, frozen=True):
    """One type of memory on one node, in bytes. free + reserved = allocatable."""

    total: int
    system: int
    """Reserved for the system."""
    allocatable: int
    reserved: int = 0
    free: int = 0

    def take(self, size: int) -> "MemoryTable":
        return msgspec.structs.replace(self, reserved=self.reserved + size, free=self.free - size)


class NodeMemory(msgspec.Struct, frozen=True):
    """Memory of one NUMA node, by type: memory and huge pages."""

    tables: dict[str, MemoryTable]
    assignments: int = 0
    """Blocks that name this node."""
    group: tuple[int, ...] = ()
    """Nodes joined by blocks that span several nodes, itself included; only itself while it is free."""


Nodes = Mapping[int, NodeMemory]


def empty_node(node: int, totals: Mapping[str, int], reserved: Mapping[str, int]) -> NodeMemory:
    """Return an unused node from its bytes by type. Huge pages do not count as plain memory."""
    huge = sum(size for kind, size in totals.items() if kind != "memory")
    tables = {}
    for kind, total in totals.items():
        usable = max(0, total - reserved.get(kind, 0) - (huge if kind == "memory" else 0))
        tables[kind] = MemoryTable(total=total, system=reserved.get(kind, 0), allocatable=usable, free=usable)
    return NodeMemory(tables, group=(node,))


def charge(empty: Nodes, holdings: Holdings) -> dict[int, NodeMemory]:
    """Return the nodes with every block taken. Recomputed from the blocks each time, so that sums cannot drift."""
    nodes = dict(empty)
    for containers in holdings.values():
        for blocks in containers.values():
            take_blocks(nodes, blocks)
    return nodes


def take_blocks(nodes: dict[int, NodeMemory], blocks: Iterable[AllocatedMemory]) -> None:
    """Take blocks from their nodes in ascending order. Nodes that are gone are skipped."""
    for block in blocks:
        left = block.size
        for node in (node for node in sorted(block.numa) if node in nodes):
            left -= _take(nodes, node, block, left)


def _take(nodes: dict[int, NodeMemory], node: int, block: AllocatedMemory, size: int) -> int:
    """Take up to `size` bytes and return how many the node gave."""
    before = nodes[node]
    tables = before.tables
    given = 0
    if block.type in tables:
        given = min(size, tables[block.type].free)
        tables = {**tables, block.type: tables[block.type].take(given)}
    nodes[node] = msgspec.structs.replace(
        before, tables=tables, assignments=before.assignments + 1, group=tuple(sorted(block.numa))
    )
    return given


Request = Mapping[str, int]
"""Bytes by type."""
Reusable = Callable[[int, str], int]
"""Returns what init containers of the pod hold of a type on exactly these nodes."""


def memory_hints(nodes: Nodes, request: Request, reusable: Reusable) -> list[Hint]:
    """Return the sets of nodes with enough free memory, for all types at once.

    A set is preferred if no smaller one could hold the request on an empty machine. Sets that break a group are left
    out.
    """
    fitting = list(_large_enough(nodes, request))
    least = min((mask.bit_count() for mask in fitting), default=len(nodes))
    possible = [mask for mask in fitting if _allowed(nodes, mask) and _has_room(nodes, request, mask, reusable)]
    return [Hint(mask, mask.bit_count() == least) for mask in possible]


def satisfies(nodes: Nodes, mask: int, request: Request) -> bool:
    """Return True if the nodes of the bit mask have the requested bytes free, together."""
    return all(_sum(nodes, mask, kind, _free) >= size for kind, size in request.items())


def breaks_group(nodes: Nodes, mask: int) -> bool:
    """Return True if the nodes cannot form a group: a node serves either single-node requests or one group."""
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
