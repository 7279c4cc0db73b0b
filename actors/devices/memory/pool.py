"""Memory of containers by NUMA node: the memory manager's static policy. Pure; one writer.

Invariant after every call: no node gives more of a type than it has, including reservations.
"""

from collections.abc import Iterable, Mapping

import msgspec

from actors.devices.memory.nodes import (
    Blocks,
    NodeMemory,
    Nodes,
    Request,
    breaks_group,
    charge,
    memory_hints,
    satisfies,
    take_blocks,
)
from actors.devices.model.errors import NoMemory
from actors.devices.topology.hints import Hint, mask_of, nodes_of
from protocols.messages.devices import AllocatedMemory


class ReusableMemory:
    """Memory of one pod's init containers, which later containers may reuse on exactly the same nodes."""

    def __init__(self) -> None:
        self.inits: list[str] = []
        """Names of the init containers so far, without sidecars."""
        self._left: dict[tuple[int, str], int] = {}

    def of(self, mask: int, kind: str) -> int:
        return self._left.get((mask, kind), 0)

    def took(self, container: str, kind: str, blocks: Blocks) -> None:
        """Record blocks of a container of kind init, sidecar or app."""
        if kind == "init":
            self.inits.append(container)
        for block in blocks:
            key = (mask_of(block.numa), block.type)
            left = self._left.get(key, 0)
            self._left[key] = max(left, block.size) if kind == "init" else max(0, left - block.size)


def shrink_inits(held: Mapping[str, Blocks], inits: list[str], taken: Blocks) -> dict[str, Blocks]:
    """Reduce the init containers' blocks by what a later container takes over."""
    shrunk = dict(held)
    for block in taken:
        left = block.size
        for name in inits:
            fresh = []
            for old in shrunk.get(name, ()):
                same = (old.type, old.numa) == (block.type, block.numa)
                given = min(left, old.size) if same else 0
                left -= given
                fresh.append(msgspec.structs.replace(old, size=old.size - given))
            if name in shrunk:
                shrunk[name] = tuple(fresh)
    return shrunk


class MemoryPool:
    """The static policy over the nodes of one machine."""

    def __init__(self, empty: Nodes) -> None:
        self._empty = empty
        self.held: dict[str, dict[str, Blocks]] = {}
        self.nodes: dict[int, NodeMemory] = dict(empty)
        """The nodes with all allocations taken."""

    @property
    def allocatable(self) -> Blocks:
        """Return allocatable blocks by node, then type. As in kubelet, types of which a node has none are left out."""
        rows = ((node, kind, table) for node, memory in self._empty.items() for kind, table in memory.tables.items())
        filled = sorted((row for row in rows if row[2].allocatable), key=_key)
        return tuple(AllocatedMemory(kind, table.allocatable, (node,)) for node, kind, table in filled)

    def hints(self, request: Request, reuse: ReusableMemory) -> list[Hint]:
        return memory_hints(self.nodes, request, reuse.of)

    def held_hints(self, request: Request, held: Blocks) -> list[Hint] | None:
        """Return the hint for a container that has its memory already; None if later containers took some over."""
        if {block.type: block.size for block in held} != dict(request):
            return None
        return [Hint(sum(1 << node for node in held[0].numa), True)]

    def take(self, uid: str, container: str, request: Request, hint: Hint, reuse: ReusableMemory) -> Blocks:
        """Allocate memory to a container. Raises NoMemory without any change."""
        mask = self._choose_nodes(request, hint, reuse)
        numa = tuple(nodes_of(mask))
        blocks = tuple(AllocatedMemory(kind, size, numa) for kind, size in sorted(request.items()))
        before = self.held.get(uid, {})
        self.held[uid] = {**shrink_inits(before, reuse.inits, blocks), container: blocks}
        self._recount()
        return blocks

    def release(self, uid: str) -> None:
        if self.held.pop(uid, None) is not None:
            self._recount()

    def adopt(self, uid: str, containers: Mapping[str, Blocks]) -> bool:
        """Restore an allocation from before a restart. Return False if it does not fit."""
        if not self._holds(containers):
            return False
        self.held[uid] = dict(containers)
        self._recount()
        return True

    def _choose_nodes(self, request: Request, hint: Hint, reuse: ReusableMemory) -> int:
        """Return the nodes to use: those of the hint, the best ones without a hint, more if they do not suffice."""
        mask, preferred = hint
        if mask is None:
            hints = self.hints(request, reuse)
            if not hints:
                raise NoMemory("failed to get the default NUMA affinity, no NUMA nodes with enough memory is available")
            mask = _best_mask(hints, preferred, "failed to find the default preferred hint")
        if not satisfies(self.nodes, mask, request):
            wider = [item for item in self.hints(request, reuse) if item.mask is not None and mask & ~item.mask == 0]
            if not wider:
                raise NoMemory("failed to find NUMA nodes to extend the current topology hint")
            mask = _best_mask(wider, preferred, "failed to find the extended preferred hint")
        if breaks_group(self.nodes, mask):
            raise NoMemory("preferred hint violates NUMA node allocation")
        return mask

    def _holds(self, containers: Mapping[str, Blocks]) -> bool:
        nodes = dict(self.nodes)
        for blocks in containers.values():
            if any(node not in nodes for block in blocks for node in block.numa):
                return False
            for block in blocks:
                if block.size > sum(_free(nodes[node], block.type) for node in block.numa):
                    return False
                take_blocks(nodes, (block,))
        return True

    def _recount(self) -> None:
        self.nodes = charge(self._empty, self.held)


def _best_mask(hints: Iterable[Hint], preferred: bool, why: str) -> int:
    """Return the best mask: preferred, few nodes, low ones. Raises NoMemory if the preferred one is gone."""
    best = min(hints, key=lambda hint: (not hint.preferred, (hint.mask or 0).bit_count(), hint.mask or 0))
    if preferred and not best.preferred:
        raise NoMemory(why)
    return best.mask or 0


def _free(node: NodeMemory, kind: str) -> int:
    return node.tables[kind].free if kind in node.tables else 0


def _key(found: tuple[int, str, object]) -> tuple[int, str]:
    return found[0], found[1]
