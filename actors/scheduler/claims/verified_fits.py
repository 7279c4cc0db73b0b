"""Results of searches for devices that hold right now, so that a pod costs the nodes that changed, not all of them.

Pure. Whatever a result depends on is watched from outside: devices taken or freed (`touched`), slices (the catalog's
revision), classes (`clear`), and the node itself.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

from actors.scheduler.model.claim_demand import Demand, Fit
from actors.scheduler.model.views import NodeView
from protocols.bounded import BoundedMap

MAX_DEMANDS = 64
Pool = tuple[str, str]
"""Driver and name."""
Entry = tuple[int, NodeView, Fit]
"""Stamp of the node's devices when the fit was verified, the node as it was, and the fit."""


class DemandFits:
    """Verified results of one demand."""

    def __init__(self, stamps: defaultdict[str, int]) -> None:
        self._stamps = stamps
        self._entries: dict[str, Entry] = {}

    def get(self, node: NodeView) -> Fit | None:
        entry = self._entries.get(node.name)
        if entry is None or entry[0] != self._stamps[node.name] or entry[1] is not node:
            return None
        return entry[2]

    def put(self, node: NodeView, fit: Fit) -> None:
        self._entries[node.name] = (self._stamps[node.name], node, fit)

    def drop(self, node: str) -> None:
        self._entries.pop(node, None)


class VerifiedFits:
    """Bounded by MAX_DEMANDS times the nodes."""

    def __init__(self) -> None:
        self.changed: Callable[[str], None] = lambda node: None
        """Called when devices that a node reaches were taken or freed."""
        self._revision = -1
        self._by_demand = BoundedMap[bytes, DemandFits](MAX_DEMANDS)
        self._nodes: defaultdict[Pool, set[str]] = defaultdict(set)
        """Nodes that reach devices of a pool."""
        self._pools: dict[str, tuple[Pool, ...]] = {}
        """The pools that each node reaches."""
        self._stamps: defaultdict[str, int] = defaultdict(int)

    def of(self, demand: Demand, revision: int) -> DemandFits:
        """Return what holds for a demand; `revision` is the catalog's. Allocated claims are decided by each pod."""
        if revision != self._revision:
            self.clear()
            self._revision = revision
        if demand.allocated or not demand.unallocated:
            return DemandFits(self._stamps)
        return self._by_demand.get_or_make(demand.signature, lambda: DemandFits(self._stamps))

    def reaches(self, node: str, pools: Iterable[Pool]) -> None:
        """Record the pools that a node reaches now."""
        self._unlink(node)
        self._pools[node] = tuple(pools)
        for pool in self._pools[node]:
            self._nodes[pool].add(node)

    def forget(self, node: str) -> None:
        """Forget a node that was deleted."""
        self._unlink(node)
        self._stamps.pop(node, None)
        for fits in self._by_demand.values():
            fits.drop(node)

    def _unlink(self, node: str) -> None:
        for pool in self._pools.pop(node, ()):
            nodes = self._nodes[pool]
            nodes.discard(node)
            if not nodes:
                del self._nodes[pool]

    def touched(self, pool: Pool) -> None:
        for node in self._nodes.get(pool, ()):
            self._stamps[node] += 1
            self.changed(node)

    def clear(self) -> None:
        """Forget everything; which nodes reach a pool is reported again as they are searched."""
        self._by_demand.clear()
