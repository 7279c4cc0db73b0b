"""Find devices for a pod's claims on each node.

Results are cached per demand and node until something changes there, so that of many nodes only those are searched
again where something happened.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from actors.scheduler.claim_demand import NOT_AVAILABLE, Demand, Fit
from actors.scheduler.claim_store import DeviceLedger
from actors.scheduler.views import NodeView
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
from protocols.kube.selectors import selects

NOT_ALLOCATABLE = "cannot allocate all claims"
FITS = Fit()
SEARCH_TIMEOUT_S = 10.0
"""For all nodes of one pod together."""
MAX_DEMANDS = 64
YIELD_EVERY = 256
"""Nodes between two yields to the event loop."""
State = tuple[View, int]
"""Everything besides the demand that a node's result depends on."""
Answers = dict[str, tuple[State, Fit]]


class NodeDevices(NamedTuple):
    """Devices that a node sees, valid until the node or any slice changes."""

    node: NodeView
    revision: int
    view: View
    pools: tuple[PoolId, ...]


class DeviceFit:
    def __init__(
        self,
        catalog: Catalog,
        ledger: DeviceLedger,
        classes: Mapping[str, DeviceClass],
        engine: Selectors,
        taints: bool,
    ) -> None:
        self._catalog, self._ledger, self._classes = catalog, ledger, classes
        self._engine, self._taints = engine, taints
        self._answers: OrderedDict[bytes, Answers] = OrderedDict()
        self._node_devices: dict[str, NodeDevices] = {}
        self.searches = 0

    def classes_changed(self) -> None:
        self._answers.clear()

    def forget_node(self, name: str) -> None:
        self._catalog.forget(name)
        self._node_devices.pop(name, None)
        for fits in self._answers.values():
            fits.pop(name, None)

    async def fits(self, demand: Demand, nodes: Iterable[NodeView]) -> dict[str, Fit]:
        """Return the result of each node. Raises AllocationFault or TimedOut, which say nothing about any node."""
        end = time.monotonic() + SEARCH_TIMEOUT_S
        found = {}
        answers = self._cached_answers(demand.signature)
        for number, node in enumerate(nodes, 1):
            found[node.name] = self._cached_fit(demand, node, answers) or await self._search(demand, node, answers, end)
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return found

    def _cached_fit(self, demand: Demand, node: NodeView, answers: Answers) -> Fit | None:
        for claim in demand.allocated:
            selector = (allocation_of(claim) or {}).get("nodeSelector")
            if selector and not selects(selector, node.name, node.labels):
                return Fit(NOT_AVAILABLE)
        if not demand.unallocated:
            return FITS
        known = answers.get(node.name)
        return known[1] if known is not None and known[0] == self._state(node) else None

    def _state(self, node: NodeView) -> State:
        devices = self._node_devices.get(node.name)
        if devices is None or devices.node is not node or devices.revision != self._catalog.revision:
            view = self._catalog.view(Node(node.name, node.labels))
            pools = tuple(each.pool.id for each in view.pools)
            devices = self._node_devices[node.name] = NodeDevices(node, self._catalog.revision, view, pools)
        return devices.view, self._ledger.revisions(devices.pools)

    def _cached_answers(self, signature: bytes) -> Answers:
        found = self._answers.setdefault(signature, {})
        self._answers.move_to_end(signature)
        if len(self._answers) > MAX_DEMANDS:
            self._answers.popitem(last=False)
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
            attempt = Attempt(AttemptOptions(demand.unallocated, ground))
            while (answer := attempt.advance()) is None:
                if time.monotonic() > end:
                    raise TimedOut("timed out trying to allocate devices")
                await asyncio.sleep(0)
        except NodeFault as fault:
            return Fit(str(fault))
        except (AllocationFault, TimedOut) as fault:
            raise type(fault)(f"node {node.name}: {fault}") from None
        if not answer:
            return Fit(NOT_ALLOCATABLE)
        picks = tuple(map(tuple, attempt.picks))
        chosen = zip(demand.unallocated, picks, strict=True)
        return Fit("", picks, sum(first_available_score(claim.requests, each) for claim, each in chosen))
