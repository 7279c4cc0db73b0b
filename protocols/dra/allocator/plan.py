"""The search's input for a pod's claims on one node: selectors, and each want's devices and count. Pure.

Also checks claims before any node is considered, with upstream's error texts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from protocols.cel.programs import compiled
from protocols.cel.source import CompileError, EvaluationError
from protocols.dra.allocator.claims import ALL, EXACT_COUNT, Claim, Want
from protocols.dra.allocator.types import (
    MAX_DEVICES,
    AllocationFault,
    NodePool,
    Offer,
    Pool,
    SelectorFault,
    Selectors,
    Usage,
)
from protocols.dra.types import Device, DeviceClass, usable


class CelSelectors:
    """Counts what it did, for metrics."""

    def __init__(self) -> None:
        self.evaluations = 0
        self.failures = 0

    def matches(self, expression: str, driver: str, device: Device) -> bool:
        self.evaluations += 1
        try:
            return compiled(expression).matches(driver, device)
        except CompileError as error:
            self.failures += 1
            raise SelectorFault(f"CEL compile error: {error}") from None
        except EvaluationError as error:
            self.failures += 1
            raise SelectorFault(f"CEL runtime error: {error}") from None


REMEMBERED = 64
"""Most expressions whose results a device caches."""


class Matcher:
    """Evaluates the selectors of one want: those of its class, then its own."""

    def __init__(self, want: Want, claim: str, classes: Mapping[str, DeviceClass], engine: Selectors) -> None:
        kind = classes[want.class_name]
        self._engine = engine
        self._tests = [
            *((f"class {kind.name}", at, text) for at, text in enumerate(kind.selectors)),
            *((f"claim {claim}", at, text) for at, text in enumerate(want.selectors)),
        ]

    def __call__(self, offer: Offer) -> bool:
        """Raises AllocationFault: a selector that fails ends the attempt, as it may be meant to keep devices out."""
        known = offer.matched
        for owner, at, expression in self._tests:
            answer = known.get(expression)
            if answer is None:
                answer = self._evaluate(owner, at, expression, offer)
            if not answer:
                return False
        return True

    def _evaluate(self, owner: str, at: int, expression: str, offer: Offer) -> bool:
        try:
            answer = self._engine.matches(expression, offer.id.driver, offer.device)
        except SelectorFault as error:
            raise AllocationFault(f"{owner}: selector #{at}: {error}") from None
        if len(offer.matched) >= REMEMBERED:
            offer.matched.clear()
        offer.matched[expression] = answer
        return answer


def check(claim: Claim, classes: Mapping[str, DeviceClass]) -> None:
    """Raises AllocationFault."""
    for request in claim.requests:
        for want in request.wants:
            _check_want(claim, want, classes)
    for at, constraint in enumerate(claim.constraints):
        if not constraint.match and not constraint.distinct:
            raise AllocationFault(
                f"claim {claim.key}, constraint #{at}: empty constraint (unsupported constraint type?)"
            )


def _check_want(claim: Claim, want: Want, classes: Mapping[str, DeviceClass]) -> None:
    where = f"claim {claim.key}, request {want.name}"
    if not want.class_name:
        raise AllocationFault(f"{where}: missing device class name (unsupported request type?)")
    if want.class_name not in classes:
        raise AllocationFault(f"{where}: could not retrieve device class {want.class_name}: not found")
    _check_selectors(f"class {want.class_name}", classes[want.class_name].selectors)
    _check_selectors(where, want.selectors)
    if want.mode not in (ALL, EXACT_COUNT):
        raise AllocationFault(f"{where}: unsupported count mode {want.mode}")
    if want.capacity:
        raise AllocationFault(f"{where}: has capacity requests, but the DRAConsumableCapacity feature is not supported")


def _check_selectors(where: str, selectors: Iterable[str]) -> None:
    for at, expression in enumerate(selectors):
        if not expression:
            raise AllocationFault(f"{where}, selector #{at}: CEL expression empty (unsupported selector type?)")


def missing_class(claim: Claim, classes: Mapping[str, DeviceClass]) -> str:
    """Return the message for a missing class, empty if none; all alternatives count, even those never reached."""
    wants = (want for request in claim.requests for want in request.wants)
    lost = next((want for want in wants if want.class_name and want.class_name not in classes), None)
    return f"request {lost.name}: device class {lost.class_name} does not exist" if lost else ""


Slot = tuple[Pool, Offer]


class Candidates:
    """Devices that one want may be given on one node, in order.

    Conditions that do not change during a search are evaluated once per device, when the search reaches it.
    """

    def __init__(
        self, want: Want, slots: tuple[Slot, ...], used: Usage, matches: Callable[[Offer], bool], taints: bool
    ) -> None:
        self.want = want
        self.slots = slots
        self._used = used
        self._matches = matches
        self._taints = taints
        self._fit: list[bool | None] = [None] * len(slots)
        self._lost = 0

    def fits(self, at: int) -> bool:
        """Raises AllocationFault."""
        known = self._fit[at]
        if known is None:
            known = self._fit[at] = self._judge(self.slots[at][1])
            self._lost += not known
        return known

    def enough(self, start: int, need: int) -> bool:
        """Return False once fewer than `need` devices can fit from `start` on."""
        left = len(self.slots) - start
        if left - self._lost >= need:
            return True
        return sum(fit is not False for fit in self._fit[start:]) >= need

    def _judge(self, offer: Offer) -> bool:
        if not self.want.admin and offer.id in self._used:
            return False
        if offer.binding or not self._matches(offer):
            return False
        return not self._taints or usable(offer.device.taints, self.want.tolerations)


def slots_of(pools: Iterable[NodePool]) -> tuple[Slot, ...]:
    """Devices that may be picked one by one: of pools that are whole and valid."""
    sound = (each for each in pools if each.pool.complete and not each.pool.fault)
    return tuple((each.pool, offer) for each in sound for offer in each.offers)


def all_of(claim: str, want: Want, pools: Iterable[NodePool], matches: Callable[[Offer], bool]) -> Iterator[Slot]:
    """Every device that is asked for, in use or not. Raises AllocationFault where that is not known now."""
    assert want.mode == ALL
    for each in pools:
        pool = each.pool
        if not pool.complete or pool.fault:
            state = "being updated" if not pool.complete else "invalid"
            raise AllocationFault(
                f"claim {claim}, request {want.name}: asks for all devices, but resource pool"
                f" {pool.id[0]}/{pool.id[1]} is currently {state}"
            )
        yield from ((pool, offer) for offer in each.offers if not offer.binding and matches(offer))


class Ground(msgspec.Struct, frozen=True):
    """Inputs of a search on one node."""

    pools: tuple[NodePool, ...]
    used: Usage
    classes: Mapping[str, DeviceClass]
    engine: Selectors
    taints: bool = True
    """Taints keep devices from being allocated."""


class Way(msgspec.Struct, frozen=True):
    """One way to satisfy a request on this node."""

    want: Want
    candidates: Candidates
    need: int
    everything: bool
    """All candidates must be had; there is no choice."""


class ClaimPlan(msgspec.Struct, frozen=True):
    claim: Claim
    requests: tuple[tuple[Way, ...], ...]
    fewest: tuple[int, ...]
    """Devices that the requests from each position on take at least."""


def plan_of(claim: Claim, ground: Ground) -> ClaimPlan:
    """Raises AllocationFault."""
    check(claim, ground.classes)
    slots = slots_of(ground.pools)
    requests = tuple(tuple(_way(claim, want, slots, ground) for want in each.wants) for each in claim.requests)
    fewest = [0]
    for ways in reversed(requests):
        fewest.append(fewest[-1] + min((way.need for way in ways), default=0))
    if fewest[-1] > MAX_DEVICES:
        raise AllocationFault(
            f"claim {claim.key}: number of requested devices {fewest[-1]} exceeds the claim limit of {MAX_DEVICES}"
        )
    return ClaimPlan(claim, requests, tuple(reversed(fewest)))


def _way(claim: Claim, want: Want, slots: tuple[Slot, ...], ground: Ground) -> Way:
    matches = Matcher(want, claim.key, ground.classes, ground.engine)
    everything = want.mode == ALL
    if everything:
        slots = tuple(all_of(claim.key, want, ground.pools, matches))
    candidates = Candidates(want, slots, ground.used, matches, ground.taints)
    return Way(want, candidates, max(1, len(slots)) if everything else want.count, everything)
