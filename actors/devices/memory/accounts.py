"""What nodes have left once blocks are taken from them.

Derived from the blocks alone, always anew: there is no sum that could drift away from them.
"""

from collections.abc import Iterable, Mapping

import msgspec

from actors.devices.memory.types import Holdings, NodeMemory, Nodes, Table
from protocols.messages.devices import AllocatedMemory


def empty_node(node: int, totals: Mapping[str, int], reserved: Mapping[str, int]) -> NodeMemory:
    """`totals` in bytes by type; what is set aside as huge pages is no plain memory any more."""
    huge = sum(size for kind, size in totals.items() if kind != "memory")
    tables = {}
    for kind, total in totals.items():
        usable = max(0, total - reserved.get(kind, 0) - (huge if kind == "memory" else 0))
        tables[kind] = Table(total=total, system=reserved.get(kind, 0), allocatable=usable, free=usable)
    return NodeMemory(tables, group=(node,))


def charge(empty: Nodes, holdings: Holdings) -> dict[int, NodeMemory]:
    """The nodes with every block taken."""
    nodes = dict(empty)
    for containers in holdings.values():
        for blocks in containers.values():
            take_blocks(nodes, blocks)
    return nodes


def take_blocks(nodes: dict[int, NodeMemory], blocks: Iterable[AllocatedMemory]) -> None:
    """Nodes in ascending order, each as far as it goes. Nodes that are gone are passed over."""
    for block in blocks:
        left = block.size
        for node in (node for node in sorted(block.numa) if node in nodes):
            left -= _take(nodes, node, block, left)


def _take(nodes: dict[int, NodeMemory], node: int, block: AllocatedMemory, size: int) -> int:
    """How much of `size` this node gave."""
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
