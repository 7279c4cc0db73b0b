"""Find devices for a pod's claims on each node.

Answers are kept per demand and node until something changes that they depend on. A search that takes long is left to
`SearchWorker`, which goes on in short turns, so that other pods are scheduled meanwhile.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from actors.scheduler.claims.device_ledger import DeviceLedger, with_kept
from actors.scheduler.claims.verified_fits import VerifiedFits
from actors.scheduler.model.claim_demand import NOT_AVAILABLE, Demand, Fit
from actors.scheduler.model.turns import TURN_S, Pacer, Turns
from actors.scheduler.model.views import NodeView
from protocols.bounded import BoundedMap
from protocols.cel.worker import selections
from protocols.cel.worker.client import WorkerAway
from protocols.cel.worker.selections import SelectorPending
from protocols.dra.allocator.attempt import Attempt, AttemptOptions, Counters
from protocols.dra.allocator.catalog import Catalog, NodePools
from protocols.dra.allocator.claims import Claim
from protocols.dra.allocator.plan import AllocatorInputs, expressions_of
from protocols.dra.allocator.result import first_available_score
from protocols.dra.allocator.shares import held_by_picks, together
from protocols.dra.allocator.types import (
    AllocatedState,
    AllocationEnded,
    AllocationFault,
    DeviceInfo,
    Holdings,
    Node,
    NodeFault,
    Pool,
    Selectors,
    TimedOut,
)
from protocols.dra.gates import Gates
from protocols.dra.pods import allocation_of
from protocols.dra.types import Device, DeviceClass, PoolId
from protocols.errors import NodeplaneError
from protocols.kube.selectors import selects

SELECT_AT_ONCE_S = 0.1
"""Time that a scheduling cycle waits for the evaluation of selectors; a SearchWorker waits for the rest."""
ENDED_S = 5.0
"""Time for which the error of an ended selector is cached: the user can read it before the next attempt."""
SELECTIONS = 4
"""Rounds in which selectors are evaluated for one search; the first finds all, unless results are dropped meanwhile."""
SLICES_CHANGE = "selectors could not be evaluated for all devices; too many results are needed at once"
NOT_ALLOCATABLE = "cannot allocate all claims"
FITS = Fit()
SEARCH_TIMEOUT_S = 10.0
"""For all nodes of one pod together."""
NODE_AT_ONCE_S, AT_ONCE_S = 0.01, 0.05
"""A scheduling cycle searches one node for so long itself, of processor time, and all nodes of its pod, of any time."""
TURN_STEPS, CLOCK_STEPS = 250, 4
"""Steps of a turn of a long search, some 2 ms, and those between two looks at the clock."""
MAX_DEMANDS = 64
YIELD_EVERY = 256
"""Nodes between two yields to the event loop."""
Fault = AllocationFault | TimedOut


class NodeDevices(NamedTuple):
    """Pools that a node reaches; valid until the node or a slice changes."""

    node: NodeView
    revision: int
    view: NodePools
    pools: tuple[PoolId, ...]


class SearchResult(NamedTuple):
    """Cached result of a search, with the revisions it is valid for."""

    view: NodePools
    freed: int
    changed: int
    """Revisions of the pools: `freed` grows with each device freed, `changed` also with each device allocated."""
    fit: Fit
    fault: Fault | None = None
    until: float = 0.0
    """Monotonic time at which the result expires; 0 if only changes invalidate it."""
    claims: tuple[Claim, ...] = ()
    """Those that a fault may name: it is no answer for equal claims of others."""


SearchResults = dict[str, SearchResult]


class SearchTakesLong(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised when a scheduling cycle leaves a search to SearchWorker; the pod is tried again when that is done."""

    def __init__(self, demand: Demand, nodes: Sequence[NodeView], deep: bool) -> None:
        super().__init__("the search for devices goes on in the background")
        self.demand, self.nodes = demand, nodes
        self.deep = deep
        """True if a single node takes long; False if only the number of nodes does."""


class SearchInputs(msgspec.Struct, frozen=True):
    """Inputs of the search for devices, and of the explanation of its result."""

    catalog: Catalog
    ledger: DeviceLedger
    classes: Mapping[str, DeviceClass]
    engine: Selectors
    gates: Gates

    def used(self, demand: Demand) -> AllocatedState:
        """Return the devices in use, and those kept for nominated pods, as allocated."""
        return with_kept(self.ledger, demand.kept)


class DeviceFit:
    """Searches for devices on nodes, with cached results by the content of the claims."""

    def __init__(self, inputs: SearchInputs) -> None:
        self._inputs, self._catalog, self._ledger = inputs, inputs.catalog, inputs.ledger
        self._results = BoundedMap[bytes, SearchResults](MAX_DEMANDS)
        self._node_devices: dict[str, NodeDevices] = {}
        self.verified, self.pacer = VerifiedFits(), Pacer()
        inputs.ledger.touched = self.verified.touched
        self.searches = self.class_changes = 0

    def classes_changed(self) -> None:
        self.class_changes += 1
        self._results.clear()
        self.verified.clear()

    def forget_node(self, name: str) -> None:
        self._catalog.forget(name)
        self._node_devices.pop(name, None)
        self.verified.forget(name)
        for fits in self._results.values():
            fits.pop(name, None)

    async def fits(self, demand: Demand, nodes: Iterable[NodeView]) -> dict[str, Fit]:
        """Return the result of each node.

        Raises AllocationFault or TimedOut, which say nothing about any node; SearchTakesLong if a SearchWorker has to
        find more answers first.
        """
        nodes = list(nodes)
        end = time.monotonic() + AT_ONCE_S
        fits: dict[str, Fit] = {}
        late: TimedOut | None = None
        verified = self.verified.of(demand, self._catalog.revision)
        for number, node in enumerate(nodes, 1):
            if (fit := verified.get(node)) is not None:
                fits[node.name] = fit
                continue
            if (fit := self._decided(demand, node)) is None:
                answer = self._known(demand, node) or await self._search_at_once(demand, node, nodes, end)
                if isinstance(answer.fault, AllocationFault):
                    raise answer.fault
                late, fit = late or answer.fault, answer.fit
                if answer.fault is None:
                    verified.put(node, fit)
            fits[node.name] = fit
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        if late is not None and all(fit.reason for fit in fits.values()):
            raise late
        return fits

    async def search_in_turns(self, demand: Demand, nodes: Sequence[NodeView], deep: bool = True) -> TimedOut | None:
        """Search the nodes without a cached result.

        Returns a fault if time was up first; the next search goes on from there. Without `deep`, raises SearchTakesLong
        for a node that takes long.
        """
        async with self.pacer.turns() as turns:
            return await self._search_nodes(demand, nodes, deep, turns)

    async def _search_nodes(
        self, demand: Demand, nodes: Sequence[NodeView], deep: bool, turns: Turns
    ) -> TimedOut | None:  # fmt: skip
        end = time.monotonic() + SEARCH_TIMEOUT_S
        for node in nodes:
            await turns.rest_if_due()
            if self._decided(demand, node) is not None or self._known(demand, node) is not None:
                continue
            if deep:
                state, classes = self._state(node), self.class_changes
                fit, fault = await self._search_turns(demand, node, state[0], end, turns)
                if classes == self.class_changes:
                    self._keep(demand, node, _answer(demand, state, fit, fault))
                if isinstance(fault, TimedOut):
                    return fault
            else:
                await self._search_at_once(demand, node, nodes, time.monotonic() + NODE_AT_ONCE_S)
        return None

    async def fit_with(self, demand: Demand, node: NodeView, used: AllocatedState, end: float) -> Fit | None:
        """Return the result of one node with other devices in use; None if it cannot be known by `end`."""
        if (decided := self._decided(demand, node)) is not None:
            return decided
        async with self.pacer.turns() as turns:
            fit, fault = await self._search_turns(demand, node, self._state(node)[0], end, turns, used)
        return None if fault is not None else fit

    def pools(self, node: NodeView) -> Iterable[Pool]:
        """Return the pools with devices that the node reaches."""
        return (pool.pool for pool in self._state(node)[0].pools)

    @staticmethod
    def _decided(demand: Demand, node: NodeView) -> Fit | None:
        """Return the result if no search is needed: an allocation elsewhere, or nothing to allocate; else None."""
        for claim in demand.allocated:
            selector = (allocation_of(claim) or {}).get("nodeSelector")
            if selector and not selects(selector, node.name, node.labels):
                return Fit(NOT_AVAILABLE)
        return None if demand.unallocated else FITS

    # answers

    def _known(self, demand: Demand, node: NodeView) -> SearchResult | None:
        """Return the cached result if it is still valid.

        After devices were allocated, a negative result stays valid; a solution does while its devices are free.
        """
        answer = self._results.get_or_make(demand.signature, dict).get(node.name)
        if answer is None or (answer.until and time.monotonic() > answer.until):
            return None
        if isinstance(answer.fault, AllocationFault) and answer.claims != demand.unallocated:
            return None
        view, freed, changed = self._state(node)
        if answer.view is not view or answer.freed != freed:
            return None
        return answer if answer.changed == changed or self._is_still_free(answer.fit, demand) else None

    def _is_still_free(self, fit: Fit, demand: Demand) -> bool:
        counters = Counters(self._inputs.used(demand))
        picks = [pick for picked in fit.picks for pick in picked]
        taken = {pick.device for pick in picks if not pick.admin}
        return self._is_available(held_by_picks(picks), demand.kept) and all(
            self._can_consume(counters, device) for device in taken
        )

    def _is_available(self, holdings: Holdings, kept: Holdings) -> bool:
        both = {device: kept[device] for device in holdings if device in kept}
        if any(amounts is None or holdings[device] is None for device, amounts in both.items()):
            return False
        return self._ledger.is_available(together((holdings, both)) if both else holdings)

    def _can_consume(self, counters: Counters, device: DeviceInfo) -> bool:
        anew = bool(device.consumes) and device.id not in self._ledger
        pool = self._catalog.pool(PoolId(device.id.driver, device.id.pool)) if anew else None
        return pool is None or counters.take(pool, device)

    def _state(self, node: NodeView) -> tuple[NodePools, int, int]:
        devices = self._node_devices.get(node.name)
        if devices is None or devices.node is not node or devices.revision != self._catalog.revision:
            view = self._catalog.view(Node(node.name, node.labels))
            pools = tuple(pool.pool.id for pool in view.pools)
            devices = self._node_devices[node.name] = NodeDevices(node, self._catalog.revision, view, pools)
            self.verified.reaches(node.name, pools)
        return devices.view, self._ledger.freed(devices.pools), self._ledger.revisions(devices.pools)

    def _keep(self, demand: Demand, node: NodeView, answer: SearchResult) -> SearchResult:
        self._results.get_or_make(demand.signature, dict)[node.name] = answer
        return answer

    # searches

    async def _search_at_once(
        self, demand: Demand, node: NodeView, nodes: Sequence[NodeView], end: float
    ) -> SearchResult:
        if time.monotonic() > end:
            raise SearchTakesLong(demand, nodes, deep=False)
        for _ in range(SELECTIONS):
            try:
                return self._searched(demand, node, nodes)
            except SelectorPending:
                try:
                    async with asyncio.timeout(SELECT_AT_ONCE_S):
                        await self._find(demand, self._state(node)[0])
                except TimeoutError:
                    raise SearchTakesLong(demand, nodes, deep=True) from None
        raise AllocationFault(SLICES_CHANGE)

    async def _find(self, demand: Demand, view: NodePools) -> None:
        """Have the demand's selectors evaluated for all devices of a view. Raises AllocationEnded."""
        devices: dict[str, list[Device]] = {}
        for pool in view.pools:
            devices.setdefault(pool.pool.id.driver, []).extend(device.spec for device in pool.devices)
        try:
            owner = demand.unallocated[0].key.partition("/")[0]
            await selections.find(expressions_of(demand.unallocated, self._inputs.classes), devices, owner)
        except WorkerAway as error:
            raise AllocationEnded(str(error)) from None

    def _searched(self, demand: Demand, node: NodeView, nodes: Sequence[NodeView]) -> SearchResult:
        """Raises SearchTakesLong, SelectorPending."""
        state, end = self._state(node), time.thread_time() + NODE_AT_ONCE_S
        try:
            attempt = self._attempt(demand, state[0])
            while (has_devices := _turn(attempt, end)) is None:
                if time.thread_time() > end:
                    raise SearchTakesLong(demand, nodes, deep=True)
        except (NodeFault, AllocationFault, TimedOut) as fault:
            return self._keep(demand, node, _answer(demand, state, *_failed(node, fault)))
        return self._keep(demand, node, SearchResult(*state, _fit(demand, attempt, has_devices)))

    async def _search_turns(
        self,
        demand: Demand,
        node: NodeView,
        view: NodePools,
        end: float,
        turns: Turns,
        used: AllocatedState | None = None,
    ) -> tuple[Fit, Fault | None]:
        try:
            attempt, has_devices = await self._advanced(demand, view, end, turns, used)
        except (NodeFault, AllocationFault, TimedOut) as fault:
            return _failed(node, fault)
        return _fit(demand, attempt, has_devices), None

    async def _advanced(
        self, demand: Demand, view: NodePools, end: float, turns: Turns, used: AllocatedState | None
    ) -> tuple[Attempt, bool]:  # fmt: skip
        for _ in range(SELECTIONS):
            try:
                attempt = self._attempt(demand, view, used)
                while (has_devices := _turn(attempt, time.thread_time() + TURN_S)) is None:
                    if time.monotonic() > end:
                        raise TimedOut("timed out trying to allocate devices")
                    await turns.rest()
                return attempt, has_devices
            except SelectorPending:
                await self._find(demand, view)
        raise AllocationFault(SLICES_CHANGE)

    def _attempt(self, demand: Demand, view: NodePools, used: AllocatedState | None = None) -> Attempt:
        self.searches += 1
        used = used if used is not None else self._inputs.used(demand)
        inputs = AllocatorInputs(view.pools, used, self._inputs.classes, self._inputs.engine, self._inputs.gates)
        return Attempt(AttemptOptions(demand.unallocated, inputs))


def _turn(attempt: Attempt, end: float) -> bool | None:
    """Search for TURN_STEPS at most, and not much longer than until the thread's processor time is `end`.

    On a busy machine a short search that waits for a processor is not taken for a long one, behind which it would wait.
    """
    for done in range(0, TURN_STEPS, CLOCK_STEPS):
        answer = attempt.advance(min(CLOCK_STEPS, TURN_STEPS - done))
        if answer is not None or time.thread_time() > end:
            return answer
    return None


def _answer(demand: Demand, state: tuple[NodePools, int, int], fit: Fit, fault: Fault | None) -> SearchResult:
    until = time.monotonic() + ENDED_S if isinstance(fault, AllocationEnded) else 0.0
    return SearchResult(*state, fit, fault, until, demand.unallocated)


def _fit(demand: Demand, attempt: Attempt, has_devices: bool) -> Fit:
    if not has_devices:
        return Fit(NOT_ALLOCATABLE)
    picks = tuple(map(tuple, attempt.picks))
    chosen = zip(demand.unallocated, picks, strict=True)
    return Fit("", picks, sum(first_available_score(claim.requests, picked) for claim, picked in chosen))


def _failed(node: NodeView, fault: NodeFault | Fault) -> tuple[Fit, Fault | None]:
    if isinstance(fault, NodeFault):
        return Fit(str(fault)), None
    return Fit(NOT_ALLOCATABLE), type(fault)(f"node {node.name}: {fault}")


Done = Callable[[Exception | None], Awaitable[None]]
"""Called with the exception that ended the search, or None; queues the pod again."""


class SearchWorker:
    """Runs long searches in the background, a few at a time since each keeps its dead ends in memory.

    Searches that are long because there are many nodes do not wait for those that are hard.
    """

    def __init__(self, fit: DeviceFit) -> None:
        self._fit = fit
        self._work: asyncio.Queue[tuple[SearchTakesLong, Done]] = asyncio.Queue()
        self._wide: asyncio.Queue[tuple[SearchTakesLong, Done]] = asyncio.Queue()

    def add(self, search: SearchTakesLong, done: Done) -> None:
        """Queue a search. `done` is called once the results are cached or the time is up.

        The pods that wait bound the queue: each has one search at most.
        """
        (self._work if search.deep else self._wide).put_nowait((search, done))

    async def run(self) -> None:
        while True:
            await self._search(*await self._work.get(), deep=True)

    async def run_wide(self) -> None:
        while True:
            search, done = await self._wide.get()
            try:
                await self._search(search, done, deep=False)
            except SearchTakesLong as deep:
                self._work.put_nowait((deep, done))

    async def _search(self, search: SearchTakesLong, done: Done, deep: bool) -> None:
        try:
            await done(await self._fit.search_in_turns(search.demand, search.nodes, deep=deep))
        except SearchTakesLong:
            raise
        except Exception as error:
            await done(error)
