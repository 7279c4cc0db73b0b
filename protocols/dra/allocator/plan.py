"""Inputs of the search for a pod's claims on one node: the candidates and number of devices of each subrequest. Pure.

Also checks claims before any node is considered, with upstream's error texts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from protocols.cel.text.source import CompileError, EvaluationError
from protocols.cel.worker import selections
from protocols.cel.worker.messages import EvaluationEnded
from protocols.dra.allocator.candidates import (
    SCANNED,
    Candidates,
    DeviceOrder,
    InSteps,
    Parts,
    consumption,
    has_room_for_share,
)
from protocols.dra.allocator.claims import ALL, EXACT_COUNT, Claim, SubRequest
from protocols.dra.allocator.types import (
    MAX_DEVICES,
    AllocatedState,
    AllocationEnded,
    AllocationFault,
    DeviceInfo,
    NodePool,
    Pool,
    SelectorEnded,
    SelectorFault,
    Selectors,
)
from protocols.dra.gates import Gates
from protocols.dra.types import Device, DeviceClass


class CelSelectors:
    """Counts what it did, for metrics."""

    def __init__(self) -> None:
        self.evaluations = 0
        self.failures = 0

    def matches(self, expression: str, driver: str, device: Device) -> bool:
        """Evaluate a selector for a device. Raises SelectorFault, and SelectorPending while the worker is asked."""
        try:
            matched = selections.matches(expression, driver, device)
            self.evaluations += 1
            return matched
        except EvaluationEnded as error:
            self.failures += 1
            raise SelectorEnded(f"CEL runtime error: {error}") from None
        except CompileError as error:
            self.failures += 1
            raise SelectorFault(f"CEL compile error: {error}") from None
        except EvaluationError as error:
            self.failures += 1
            raise SelectorFault(f"CEL runtime error: {error}") from None


REMEMBERED = 64
"""Most expressions whose results a device caches."""


class Matcher:
    """Evaluates the selectors of a subrequest: those of its class, then its own."""

    def __init__(
        self, subrequest: SubRequest, claim: str, classes: Mapping[str, DeviceClass], engine: Selectors
    ) -> None:
        kind = classes[subrequest.class_name]
        self._engine = engine
        self._tests = [
            *((f"class {kind.name}", at, text) for at, text in enumerate(kind.selectors)),
            *((f"claim {claim}", at, text) for at, text in enumerate(subrequest.selectors)),
        ]

    def __call__(self, device: DeviceInfo) -> bool:
        """Raises AllocationFault: a selector that fails ends the attempt, as it may be meant to keep devices out."""
        known = device.matched
        for owner, at, expression in self._tests:
            answer = known.get(expression)
            if answer is None:
                answer = self._evaluate(owner, at, expression, device)
            if not answer:
                return False
        return True

    def _evaluate(self, owner: str, at: int, expression: str, device: DeviceInfo) -> bool:
        try:
            answer = self._engine.matches(expression, device.id.driver, device.spec)
        except SelectorFault as error:
            kind = AllocationEnded if isinstance(error, SelectorEnded) else AllocationFault
            raise kind(f"{owner}: selector #{at}: {error}") from None
        if len(device.matched) >= REMEMBERED:
            device.matched.clear()
        device.matched[expression] = answer
        return answer


def check(claim: Claim, classes: Mapping[str, DeviceClass]) -> None:
    """Raises AllocationFault."""
    for request in claim.requests:
        for subrequest in request.subrequests:
            _check_subrequest(claim, subrequest, classes)
    for at, constraint in enumerate(claim.constraints):
        if not constraint.match and not constraint.distinct:
            raise AllocationFault(
                f"claim {claim.key}, constraint #{at}: empty constraint (unsupported constraint type?)"
            )


def _check_capacity(claim: Claim, allowed: bool) -> None:
    subrequests = (subrequest for request in claim.requests for subrequest in request.subrequests)
    if (
        not allowed
        and (wrong := next((subrequest for subrequest in subrequests if subrequest.capacity), None)) is not None
    ):
        raise AllocationFault(
            f"claim {claim.key}, request {wrong.name}: has capacity requests, but the DRAConsumableCapacity feature is"
            " disabled"
        )


def _check_subrequest(claim: Claim, subrequest: SubRequest, classes: Mapping[str, DeviceClass]) -> None:
    where = f"claim {claim.key}, request {subrequest.name}"
    if not subrequest.class_name:
        raise AllocationFault(f"{where}: missing device class name (unsupported request type?)")
    if subrequest.class_name not in classes:
        raise AllocationFault(f"{where}: could not retrieve device class {subrequest.class_name}: not found")
    _check_selectors(f"class {subrequest.class_name}", classes[subrequest.class_name].selectors)
    _check_selectors(where, subrequest.selectors)
    if subrequest.mode not in (ALL, EXACT_COUNT):
        raise AllocationFault(f"{where}: unsupported count mode {subrequest.mode}")


def _check_selectors(where: str, selectors: Iterable[str]) -> None:
    for at, expression in enumerate(selectors):
        if not expression:
            raise AllocationFault(f"{where}, selector #{at}: CEL expression empty (unsupported selector type?)")


def expressions_of(claims: Iterable[Claim], classes: Mapping[str, DeviceClass]) -> list[str]:
    """Return the selectors of claims and their classes, without unknown ones."""
    subrequests = [subrequest for claim in claims for request in claim.requests for subrequest in request.subrequests]
    known = (
        text
        for subrequest in subrequests
        if subrequest.class_name in classes
        for text in classes[subrequest.class_name].selectors
    )
    return [text for text in (*known, *(text for subrequest in subrequests for text in subrequest.selectors)) if text]


def missing_class(claim: Claim, classes: Mapping[str, DeviceClass]) -> str:
    """Return the message for a missing class, empty if none; all alternatives count, even those never reached."""
    subrequests = (subrequest for request in claim.requests for subrequest in request.subrequests)
    lost = next(
        (subrequest for subrequest in subrequests if subrequest.class_name and subrequest.class_name not in classes),
        None,
    )
    return f"request {lost.name}: device class {lost.class_name} does not exist" if lost else ""


def candidates_of(pools: Iterable[NodePool], binding: bool = True) -> Parts:
    """Yield the devices of each pool that is complete and valid."""
    for view in pools:
        if view.pool.complete and not view.pool.fault:
            every = binding or not view.pool.has_binding_conditions
            devices = view.devices if every else [each for each in view.devices if not each.has_binding_conditions]
            yield view.pool, devices


def all_candidates_of(
    claim: str, subrequest: SubRequest, inputs: "AllocatorInputs", matches: Callable[[DeviceInfo], bool]
) -> InSteps[tuple[Parts, int]]:
    """Return the devices that allocationMode All requests, in use or not, except those with too little capacity.

    They come with their number; past MAX_DEVICES they are only counted, since no claim can have them. Raises
    AllocationFault while a pool is incomplete or invalid.
    """
    assert subrequest.mode == ALL
    parts: list[tuple[Pool, list[DeviceInfo]]] = []
    count = 0
    for view in inputs.pools:
        pool = view.pool
        if not pool.complete or pool.fault:
            state = "being updated" if not pool.complete else "invalid"
            raise AllocationFault(
                f"claim {claim}, request {subrequest.name}: asks for all devices, but resource pool"
                f" {pool.id[0]}/{pool.id[1]} is currently {state}"
            )
        parts.append((pool, devices := []))
        for number, device in enumerate(view.devices):
            if number % SCANNED == SCANNED - 1:
                yield
            if not inputs.gates.binding and device.has_binding_conditions:
                continue
            if matches(device) and has_room_for_share(subrequest, device, inputs.used, consumption(subrequest, device)):
                count += 1
                devices += [device] if count <= MAX_DEVICES else []
    return parts, count


class AllocatorInputs(msgspec.Struct, frozen=True):
    """Inputs of a search on one node: upstream passes them to NewAllocator."""

    pools: tuple[NodePool, ...]
    used: AllocatedState
    classes: Mapping[str, DeviceClass]
    engine: Selectors
    gates: Gates = Gates()


class RequestData(msgspec.Struct, frozen=True):
    """A subrequest, or a request without any, and its candidates on one node."""

    subrequest: SubRequest
    candidates: Candidates
    num_devices: int
    all_devices: bool
    """allocationMode All: every candidate must be allocated."""


class ClaimPlan(msgspec.Struct, frozen=True):
    """Inputs of the search for one claim on one node."""

    claim: Claim
    requests: tuple[tuple[RequestData, ...], ...]
    fewest: tuple[int, ...]
    """The fewest devices that each request and all later ones need together."""


MAX_JUDGMENTS = 2**26
"""Requests, alternatives included, times devices: one search has a byte for each."""


def order_of(claims: Sequence[Claim], inputs: AllocatorInputs) -> DeviceOrder:
    """Return the order of the devices that the claims may be allocated. Raises AllocationFault if they ask too much."""
    order = DeviceOrder(candidates_of(inputs.pools, inputs.gates.binding))
    requests = sum(len(request.subrequests) for claim in claims for request in claim.requests)
    if requests * len(order.devices) > MAX_JUDGMENTS:
        raise AllocationFault(
            f"the claims have {requests} requests, too many for a node with {len(order.devices)} devices"
        )
    return order


def plan_of(claim: Claim, inputs: AllocatorInputs, order: DeviceOrder) -> InSteps[ClaimPlan]:
    """Return the plan of a claim that chooses from devices in this order. Raises AllocationFault."""
    check(claim, inputs.classes)
    _check_capacity(claim, inputs.gates.shares)
    requests: list[tuple[RequestData, ...]] = []
    for request in claim.requests:
        alternatives = []
        for subrequest in request.subrequests:
            alternatives.append((yield from _request_data(claim, subrequest, order, inputs)))
        requests.append(tuple(alternatives))
    fewest = [0]
    for each in reversed(requests):
        fewest.append(fewest[-1] + min((request.num_devices for request in each), default=0))
    if fewest[-1] > MAX_DEVICES:
        raise AllocationFault(
            f"claim {claim.key}: number of requested devices {fewest[-1]} exceeds the claim limit of {MAX_DEVICES}"
        )
    return ClaimPlan(claim, tuple(requests), tuple(reversed(fewest)))


def _request_data(
    claim: Claim, subrequest: SubRequest, order: DeviceOrder, inputs: AllocatorInputs
) -> InSteps[RequestData]:
    matches = Matcher(subrequest, claim.key, inputs.classes, inputs.engine)
    all_devices = subrequest.mode == ALL
    count = subrequest.count
    if all_devices:
        parts, count = yield from all_candidates_of(claim.key, subrequest, inputs, matches)
        order = DeviceOrder(parts)
    candidates = Candidates(subrequest, order, inputs.used, matches, inputs.gates.taints)
    return RequestData(subrequest, candidates, max(1, count), all_devices)
