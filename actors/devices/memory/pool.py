"""Memory that init containers leave to the containers after them: only on just the same nodes."""

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


class Reuse:
    """Of one pod that is being admitted."""

    def __init__(self) -> None:
        self.inits: list[str] = []
        """Names of its init containers so far, sidecars apart."""
        self._left: dict[tuple[int, str], int] = {}

    def of(self, mask: int, kind: str) -> int:
        return self._left.get((mask, kind), 0)

    def took(self, container: str, kind: str, blocks: Blocks) -> None:
        """`kind`: init, sidecar or app."""
        if kind == "init":
            self.inits.append(container)
        for block in blocks:
            key = (mask_of(block.numa), block.type)
            left = self._left.get(key, 0)
            self._left[key] = max(left, block.size) if kind == "init" else max(0, left - block.size)


def shrink_inits(held: Mapping[str, Blocks], inits: list[str], taken: Blocks) -> dict[str, Blocks]:
    """What a later container takes over is no longer counted for the init containers that had it."""
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
        """With everything taken that is held."""

    @property
    def allocatable(self) -> Blocks:
        """By node, then type."""
        found = ((node, kind, table) for node, memory in self._empty.items() for kind, table in memory.tables.items())
        return tuple(AllocatedMemory(kind, table.allocatable, (node,)) for node, kind, table in sorted(found, key=_key))

    def hints(self, request: Request, reuse: Reuse) -> list[Hint]:
        return memory_hints(self.nodes, request, reuse.of)

    def held_hints(self, request: Request, held: Blocks) -> list[Hint]:
        """Of a container that has its memory already: where it is."""
        if {block.type: block.size for block in held} != dict(request):
            return []
        return [Hint(sum(1 << node for node in held[0].numa), True)]

    def take(self, uid: str, container: str, request: Request, hint: Hint, reuse: Reuse) -> Blocks:
        """Raises NoMemory, and has changed nothing then."""
        mask = self._settle(request, hint, reuse)
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
        """What an earlier life gave out, as it was. False: it is more than is left."""
        if not self._holds(containers):
            return False
        self.held[uid] = dict(containers)
        self._recount()
        return True

    def _settle(self, request: Request, hint: Hint, reuse: Reuse) -> int:
        """The hint's nodes; any good ones without a hint; more of them when the hinted ones do not suffice."""
        mask, preferred = hint
        if mask is None:
            found = self.hints(request, reuse)
            if not found:
                raise NoMemory("failed to get the default NUMA affinity, no NUMA nodes with enough memory is available")
            mask = _wanted(found, preferred, "failed to find the default preferred hint")
        if not satisfies(self.nodes, mask, request):
            wider = [item for item in self.hints(request, reuse) if item.mask is not None and mask & ~item.mask == 0]
            if not wider:
                raise NoMemory("failed to find NUMA nodes to extend the current topology hint")
            mask = _wanted(wider, preferred, "failed to find the extended preferred hint")
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


def _wanted(hints: Iterable[Hint], preferred: bool, why: str) -> int:
    """The best of them: preferred, then few nodes, then low ones. Raises NoMemory when a preferred one was promised."""
    best = min(hints, key=lambda hint: (not hint.preferred, (hint.mask or 0).bit_count(), hint.mask or 0))
    if preferred and not best.preferred:
        raise NoMemory(why)
    return best.mask or 0


def _free(node: NodeMemory, kind: str) -> int:
    return node.tables[kind].free if kind in node.tables else 0


def _key(found: tuple[int, str, object]) -> tuple[int, str]:
    return found[0], found[1]
