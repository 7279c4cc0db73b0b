"""Which nodes can give a pod's claims what they want. What a node answered is remembered until something there changes,
so that of a hundred nodes only those are searched anew where something happened."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

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
from protocols.dra.types import DeviceClass, PoolId
from protocols.kube.node_selector import selects

CANNOT = "cannot allocate all claims"
ANYTHING = Fit()
PATIENCE_S = 10.0
"""For all nodes of one pod together."""
SIGNATURES = 64
BREATH = 256
"""Nodes between two turns of the event loop."""
State = tuple[View, int]
"""Everything that a node's answer depends on, apart from what is asked."""
Answers = dict[str, tuple[State, Fit]]


class Seen(NamedTuple):
    """What a node sees, as long as neither it nor any slice changes."""

    node: NodeView
    revision: int
    view: View
    pools: tuple[PoolId, ...]


class Fitting:
    def __init__(
        self, catalog: Catalog, ledger: Ledger, classes: Mapping[str, DeviceClass], engine: Selectors, taints: bool
    ) -> None:
        self._catalog, self._ledger, self._classes = catalog, ledger, classes
        self._engine, self._taints = engine, taints
        self._known: OrderedDict[bytes, Answers] = OrderedDict()
        self._seen: dict[str, Seen] = {}
        self.searches = 0

    def classes_changed(self) -> None:
        self._known.clear()

    def node_gone(self, name: str) -> None:
        self._catalog.forget(name)
        self._seen.pop(name, None)
        for fits in self._known.values():
            fits.pop(name, None)

    async def fits(self, demand: Demand, nodes: Iterable[NodeView]) -> dict[str, Fit]:
        """Of each node. Raises AllocationFault and TimedOut: then the attempt says nothing about any node."""
        end = time.monotonic() + PATIENCE_S
        found = {}
        answers = self._remembered(demand.signature)
        for number, node in enumerate(nodes, 1):
            found[node.name] = self._known_fit(demand, node, answers) or await self._search(demand, node, answers, end)
            if number % BREATH == 0:
                await asyncio.sleep(0)
        return found

    def _known_fit(self, demand: Demand, node: NodeView, answers: Answers) -> Fit | None:
        for claim in demand.allocated:
            selector = (allocation_of(claim) or {}).get("nodeSelector")
            if selector and not selects(selector, node.name, node.labels):
                return Fit(NOT_AVAILABLE)
        if not demand.wanted:
            return ANYTHING
        known = answers.get(node.name)
        return known[1] if known is not None and known[0] == self._state(node) else None

    def _state(self, node: NodeView) -> State:
        seen = self._seen.get(node.name)
        if seen is None or seen.node is not node or seen.revision != self._catalog.revision:
            view = self._catalog.view(Node(node.name, node.labels))
            pools = tuple(each.pool.id for each in view.pools)
            seen = self._seen[node.name] = Seen(node, self._catalog.revision, view, pools)
        return seen.view, self._ledger.revisions(seen.pools)

    def _remembered(self, signature: bytes) -> Answers:
        found = self._known.setdefault(signature, {})
        self._known.move_to_end(signature)
        if len(self._known) > SIGNATURES:
            self._known.popitem(last=False)
        return found

    async def _search(self, demand: Demand, node: NodeView, answers: Answers, end: float) -> Fit:
        state = self._state(node)
        fit = await self._attempt(demand, node, state[0], end)
        answers[node.name] = state, fit
        return fit

    async def _attempt(self, demand: Demand, node: NodeView, view: View, end: float) -> Fit:
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
