"""Which nodes can give a pod's claims what they want. What a node answered is remembered until something there changes,
so that of a hundred nodes only those are searched anew where something happened."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from actors.scheduler.dra.gate import NOT_AVAILABLE
from actors.scheduler.dra.ledger import Ledger
from actors.scheduler.dra.types import Demand, Fit
from actors.scheduler.types import NodeView
from protocols.dra.allocator import (
    AllocationFault,
    Attempt,
    AttemptOptions,
    Catalog,
    Ground,
    Node,
    NodeFault,
    Selectors,
    TimedOut,
    first_available_score,
)
from protocols.dra.allocator.catalog import View
from protocols.dra.pods import allocation_of
from protocols.dra.types import DeviceClass
from protocols.kube.node_selector import selects

CANNOT = "cannot allocate all claims"
PATIENCE_S = 10.0
"""For all nodes of one pod together."""
SIGNATURES = 64
BREATH = 256
"""Nodes between two turns of the event loop."""
State = tuple[View, int]


class Fitting:
    def __init__(
        self, catalog: Catalog, ledger: Ledger, classes: Mapping[str, DeviceClass], engine: Selectors, taints: bool
    ) -> None:
        self._catalog, self._ledger, self._classes = catalog, ledger, classes
        self._engine, self._taints = engine, taints
        self._known: OrderedDict[bytes, dict[str, tuple[State, Fit]]] = OrderedDict()
        self.searches = 0

    def classes_changed(self) -> None:
        self._known.clear()

    def node_gone(self, name: str) -> None:
        self._catalog.forget(name)
        for fits in self._known.values():
            fits.pop(name, None)

    async def fits(self, demand: Demand, nodes: Iterable[NodeView]) -> dict[str, Fit]:
        """Of each node. Raises AllocationFault and TimedOut: then the attempt says nothing about any node."""
        end = time.monotonic() + PATIENCE_S
        found = {}
        for number, node in enumerate(nodes, 1):
            found[node.name] = await self._fit(demand, node, end)
            if number % BREATH == 0:
                await asyncio.sleep(0)
        return found

    async def _fit(self, demand: Demand, node: NodeView, end: float) -> Fit:
        for claim in demand.allocated:
            selector = (allocation_of(claim) or {}).get("nodeSelector")
            if selector and not selects(selector, node.name, node.labels):
                return Fit(NOT_AVAILABLE)
        if not demand.wanted:
            return Fit()
        state = self._state(node)
        known = self._remembered(demand.signature).get(node.name)
        if known is not None and known[0] == state:
            return known[1]
        fit = await self._search(demand, node, state[0], end)
        self._remembered(demand.signature)[node.name] = state, fit
        return fit

    def _state(self, node: NodeView) -> State:
        """Everything that an answer depends on, apart from what is asked."""
        view = self._catalog.view(Node(node.name, node.labels))
        return view, sum(self._ledger.revision(each.pool.id.driver, each.pool.id.pool) for each in view.pools)

    def _remembered(self, signature: bytes) -> dict[str, tuple[State, Fit]]:
        found = self._known.setdefault(signature, {})
        self._known.move_to_end(signature)
        if len(self._known) > SIGNATURES:
            self._known.popitem(last=False)
        return found

    async def _search(self, demand: Demand, node: NodeView, view: View, end: float) -> Fit:
        self.searches += 1
        try:
            ground = Ground(view.pools, self._ledger, self._classes, self._engine, self._taints)
            attempt = Attempt(AttemptOptions(demand.wanted, ground))
            while (answer := attempt.advance()) is None:
                if time.monotonic() > end:
                    raise TimedOut("timed out trying to allocate devices")
                await asyncio.sleep(0)
        except NodeFault as fault:
            return Fit(str(fault))
        except (AllocationFault, TimedOut) as fault:
            raise type(fault)(f"node {node.name}: {fault}") from None
        if not answer:
            return Fit(CANNOT)
        picks = tuple(map(tuple, attempt.picks))
        chosen = zip(demand.wanted, picks, strict=True)
        return Fit("", picks, sum(first_available_score(claim.requests, each) for claim, each in chosen))
