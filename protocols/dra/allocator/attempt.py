"""The search for devices on one node, for all unallocated claims of a pod at once. Pure.

Depth first: claims, their requests, the subrequests of each in order of preference, devices in order; the first
solution wins. Choice points are generators on an explicit stack: resuming one undoes its choice and makes the next. So
a search can be suspended and resumed, and never recurses.
"""

import functools
import itertools
import math
from collections.abc import Hashable, Iterator

import msgspec

from protocols.dra.allocator.candidates import SCANNED, InSteps
from protocols.dra.allocator.claims import Claim
from protocols.dra.allocator.constraints import (
    Constraint,
    DistinctAttributeConstraint,
    add_to_all,
    constraints_of,
    remove_from_all,
)
from protocols.dra.allocator.plan import AllocatorInputs, ClaimPlan, RequestData, order_of, plan_of
from protocols.dra.allocator.pruning import PATIENCE, DeadEnds, EquivalentDevices, has_too_few_devices, values_of
from protocols.dra.allocator.shares import added, amounts_of, has_room
from protocols.dra.allocator.types import (
    MAX_DEVICES,
    AllocatedState,
    AllocationFault,
    Amounts,
    CounterId,
    DeviceInfo,
    NodeFault,
    Pick,
    Pool,
    TimedOut,
)
from protocols.dra.types import Attribute, PoolId


class Counters:
    """Shared counters of partitionable devices (KEP-4815): the rest that devices taken so far leave of them."""

    def __init__(self, used: AllocatedState) -> None:
        self._used = used
        self._left: dict[PoolId, dict[CounterId, int]] = {}

    def take(self, pool: Pool, device: DeviceInfo) -> bool:
        """Take what the device consumes; return False, and take nothing, if a counter would fall below zero."""
        if not device.consumes:
            return True
        left = self._left_of(pool)
        if any(left[counter] < amount for counter, amount in device.consumes.items()):
            return False
        for counter, amount in device.consumes.items():
            left[counter] -= amount
        return True

    def give(self, pool: Pool, device: DeviceInfo) -> None:
        left = self._left_of(pool) if device.consumes else {}
        for counter, amount in device.consumes.items():
            left[counter] += amount

    def left(self, request: RequestData, start: int, all_of_them: bool) -> Hashable:
        """Return what is left of the counters that candidates from `start` on consume, or of all counters."""
        last = request.candidates.order.last_consumers
        return tuple(
            (pool, counter, amount)
            for pool, left in self._left.items()
            for counter, amount in left.items()
            if all_of_them or last.get((pool, counter), -1) >= start
        )

    def _left_of(self, pool: Pool) -> dict[CounterId, int]:
        """Counters are less what devices in use consume, even those that this node does not reach."""
        left = self._left.get(pool.id)
        if left is None:
            left = self._left[pool.id] = dict(pool.counters)
            for device in pool.consumers:
                if device.id in self._used:
                    for counter, amount in device.consumes.items():
                        left[counter] -= amount
        return left


class AllocatingDevice:
    """A device in the partial solution, as a whole or in shares. Devices of admin access are not counted."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.shares: list[Amounts] = []

    def consumed(self) -> Amounts:
        return functools.reduce(added, self.shares, {})

    def state(self) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(self.consumed().items()))


STEPS = 1_000_000
"""Choices, and SCANNED devices each that were looked at and not chosen."""
FLIGHT = 2_000
"""Steps after which the driver of the search checks the clock."""


class AttemptOptions(msgspec.Struct, frozen=True):
    """Claims to allocate together, and bounds of the search: steps in all, and steps before costlier pruning begins."""

    claims: tuple[Claim, ...]
    inputs: AllocatorInputs
    steps: int = STEPS
    patience: int = PATIENCE


class DeviceIndices(msgspec.Struct, frozen=True):
    """Position of the search: the next device is chosen for this claim and request."""

    claim: int
    request: int
    alternative: RequestData | None = None
    """The subrequest that the search follows; None before one is chosen."""
    need: int = 0
    """Devices that the subrequest still lacks."""
    start: int = 0
    """First candidate that may be chosen."""


Choices = Iterator[DeviceIndices | None]
"""Choices of a choice point, in order; None after SCANNED devices without a choice."""


class Attempt:
    """One search. Call `advance` until it returns a bool; after True, `picks` has the devices of each claim."""

    def __init__(self, options: AttemptOptions) -> None:
        self._options = options
        self._plans: list[ClaimPlan] = []
        self._constraints: list[list[Constraint]] = [constraints_of(claim) for claim in options.claims]
        self._used = options.inputs.used
        self._counters = Counters(self._used)
        self._equivalents = EquivalentDevices((), (), self._used)
        self._dead_ends = DeadEnds()
        self._values: dict[Constraint, frozenset[Attribute]] = {}
        self._allocating: dict[DeviceInfo, AllocatingDevice] = {}
        self.picks: list[list[Pick]] = [[] for _ in options.claims]
        self._stack: list[tuple[Choices, Hashable]] = [(self._begin(), None)]
        """Choice points, each with the state it began in if that is kept."""
        self.steps = 0
        self._patience = self._limit = math.inf
        """Steps before costlier pruning begins, and in all; unlimited while claims are planned."""

    def run(self) -> bool:
        """Search to the end. Raises what `advance` raises."""
        while (answer := self.advance()) is None:
            pass
        return answer

    def advance(self, steps: int = FLIGHT) -> bool | None:
        """Search at most so many steps; None if that was not enough. Raises AllocationFault, NodeFault, TimedOut."""
        for _ in range(steps):
            if not self._stack:
                return self._nothing()
            self.steps += 1
            if self.steps == self._patience + 1:
                self._stack.append((self._check_devices(), None))
            indices = next(self._stack[-1][0], DEAD)
            if indices is SOLVED:
                return True
            if indices is DEAD:
                self._leave(self._stack.pop()[1])
            elif indices is not None:
                self._enter(indices)
        if self.steps >= self._limit:
            raise TimedOut("timed out trying to allocate devices")
        return None

    def _enter(self, indices: DeviceIndices) -> None:
        state: Hashable = None
        if indices.alternative and indices.need and self.steps > self._patience:
            state = self._state(indices, indices.alternative)
            if state in self._dead_ends:
                return
        self._stack.append((self._choices(indices), state))

    def _leave(self, state: Hashable) -> None:
        if state is not None:
            self._dead_ends.add(state)

    def _state(self, indices: DeviceIndices, request: RequestData) -> Hashable:
        """Return everything that the rest of the search depends on; equivalent devices count as one."""
        later = indices.request + 1 < len(self._plans[indices.claim].requests) or indices.claim + 1 < len(self._plans)
        allocating = [
            ((self._equivalents.number(each.pool, device), each.state()), device)
            for device, each in self._allocating.items()
        ]
        ahead = sorted(state for state, device in allocating if request.candidates.position(device) >= indices.start)
        everywhere = sorted(state for state, _ in allocating) if later else ()
        own = tuple(id(pick.device) for pick in self.picks[indices.claim] if pick.admin)
        constraints = tuple(constraint.state() for constraint in self._constraints[indices.claim])
        left = self._counters.left(request, indices.start, later)
        picked = len(self.picks[indices.claim])
        where = (indices.claim, indices.request, id(request), indices.need, indices.start, picked)
        return where, tuple(ahead), tuple(everywhere), own, constraints, left

    def _has_too_few_values(self, indices: DeviceIndices, request: RequestData) -> InSteps[bool]:
        """Return True if a distinctAttribute constraint has fewer unused values than devices are still to be chosen."""
        plan = self._plans[indices.claim]
        for constraint in self._constraints[indices.claim]:
            if not isinstance(constraint, DistinctAttributeConstraint):
                continue
            if not constraint.covers(request.subrequest.name):
                continue
            later = plan.requests[indices.request + 1 :]
            covered = (
                requests
                for requests in later
                if all(constraint.covers(request.subrequest.name) for request in requests)
            )
            need = indices.need + sum(
                min((request.num_devices for request in requests), default=0) for requests in covered
            )
            if constraint not in self._values:
                self._values[constraint] = yield from values_of(plan, constraint)
            if constraint.unused(self._values[constraint]) < need:
                return True
        return False

    def _nothing(self) -> bool:
        if any(pool.pool.fault for pool in self._options.inputs.pools):
            raise NodeFault("invalid resource pools were encountered")
        return False

    # choice points: each makes a choice before it yields a position, and undoes it when the next one is requested

    def _begin(self) -> Choices:
        """Plan all claims, then choose devices for the first. Raises AllocationFault."""
        inputs = self._options.inputs
        order = order_of(self._options.claims, inputs)
        for claim in self._options.claims:
            self._plans.append((yield from plan_of(claim, inputs, order)))
        constraints = itertools.chain.from_iterable(self._constraints)
        self._equivalents = EquivalentDevices(self._plans, constraints, self._used)
        self.steps, self._patience, self._limit = 0, self._options.patience, self._options.steps
        yield DeviceIndices(0, 0)

    def _check_devices(self) -> Choices:
        """End the search if some request has too few devices, whatever the others take."""
        if (yield from has_too_few_devices(self._plans)):
            del self._stack[:-1]

    def _choices(self, indices: DeviceIndices) -> Choices:
        if indices.claim == len(self._plans):
            yield SOLVED
        elif indices.request == len(self._plans[indices.claim].requests):
            yield DeviceIndices(indices.claim + 1, 0)
        elif indices.alternative is None:
            yield from self._alternatives(indices)
        elif indices.need == 0:
            yield DeviceIndices(indices.claim, indices.request + 1)
        elif self.steps > self._patience and (yield from self._has_too_few_values(indices, indices.alternative)):
            return
        elif indices.alternative.all_devices:
            yield from self._all_devices(indices, indices.alternative)
        else:
            yield from self._devices(indices, indices.alternative)

    def _alternatives(self, indices: DeviceIndices) -> Choices:
        """Skip subrequests that would take the claim past its limit of devices."""
        plan = self._plans[indices.claim]
        rest = len(self.picks[indices.claim]) + plan.fewest[indices.request + 1]
        for request in plan.requests[indices.request]:
            if request.num_devices + rest <= MAX_DEVICES:
                yield DeviceIndices(indices.claim, indices.request, request, request.num_devices)

    def _devices(self, indices: DeviceIndices, request: RequestData) -> Choices:
        """Choose combinations, not permutations: the next device comes after this one.

        Of indistinguishable devices only the first is tried.
        """
        candidates, tried = request.candidates, set[Hashable]()
        at = candidates.first(indices.start)
        for scanned in itertools.count(1):
            if not candidates.has_enough(at, indices.need):
                return
            if self._is_untried(indices.claim, request, at, tried):
                pool, device = candidates.order.pool(at), candidates.devices[at]
                if self._take(indices.claim, request, pool, device):
                    yield DeviceIndices(indices.claim, indices.request, request, indices.need - 1, at + 1)
                    self._give(indices.claim, request, pool, device)
                tried.add(self._equivalence(pool, device))
            at = candidates.first(at + 1)
            if scanned % SCANNED == 0:
                yield None

    def _is_untried(self, claim: int, request: RequestData, at: int, tried: set[Hashable]) -> bool:
        """Return True if a device is free for a request, fits it, and is equal to none that was tried."""
        pool, device = request.candidates.order.pool(at), request.candidates.devices[at]
        if self._is_busy(claim, request, device) or not request.candidates.is_fitting(at):
            return False
        return not tried or self._equivalence(pool, device) not in tried

    def _equivalence(self, pool: Pool, device: DeviceInfo) -> Hashable:
        """Return the same value for devices whose exchange changes nothing now: equal, and equally consumed."""
        allocating = self._allocating.get(device)
        return self._equivalents.number(pool, device), allocating.state() if allocating is not None else None

    def _all_devices(self, indices: DeviceIndices, request: RequestData) -> Choices:
        """Choose every candidate in order; a device that cannot be chosen ends this branch."""
        candidates = request.candidates
        if indices.start >= len(candidates.devices):
            return
        pool, device = candidates.order.pool(indices.start), candidates.devices[indices.start]
        if self._is_busy(indices.claim, request, device) or not candidates.is_fitting(indices.start):
            return
        if not add_to_all(self._constraints[indices.claim], request.subrequest.name, device):
            raise AllocationFault(self._broken(indices.claim, request, device))
        remove_from_all(self._constraints[indices.claim], request.subrequest.name, device)
        if self._take(indices.claim, request, pool, device):
            yield DeviceIndices(indices.claim, indices.request, request, indices.need - 1, indices.start + 1)
            self._give(indices.claim, request, pool, device)

    def _broken(self, claim: int, request: RequestData, device: DeviceInfo) -> str:
        where = f"claim {self._plans[claim].claim.key}, request {request.subrequest.name}"
        return f"{where}: cannot add device {'/'.join(device.id)} because a claim constraint would not be satisfied"

    def _is_busy(self, claim: int, request: RequestData, device: DeviceInfo) -> bool:
        """Return True for a device in use. Admin access ignores other use, but no claim holds a device twice.

        Of shared devices, a claim may have several shares.
        """
        if device.is_shared:
            return not request.subrequest.admin and not self._has_room(request, device)
        if not request.subrequest.admin and device in self._allocating:
            return True
        return any(pick.device is device for pick in self.picks[claim])

    def _has_room(self, request: RequestData, device: DeviceInfo) -> bool:
        allocating = self._allocating.get(device)
        share = request.candidates.share(device) if allocating is not None else None
        if allocating is None or share is None:  # without picks of this pod, `fits` answers
            return True
        consumed = added(request.candidates.consumed(device), allocating.consumed())
        return has_room(device.spec.capacity, consumed, amounts_of(share))

    def _take(self, claim: int, request: RequestData, pool: Pool, device: DeviceInfo) -> bool:
        subrequest = request.subrequest
        if not add_to_all(self._constraints[claim], subrequest.name, device):
            return False
        share = request.candidates.share(device)
        if not subrequest.admin:
            if not self._is_consumed_anew(device) or self._counters.take(pool, device):
                allocating = self._allocating.setdefault(device, AllocatingDevice(pool))
                allocating.shares += [amounts_of(share)] if share is not None else []
            else:
                remove_from_all(self._constraints[claim], subrequest.name, device)
                return False
        self.picks[claim].append(Pick(subrequest.name, device, subrequest.admin, subrequest.tolerations, share))
        return True

    def _give(self, claim: int, request: RequestData, pool: Pool, device: DeviceInfo) -> None:
        self.picks[claim].pop()
        if not request.subrequest.admin:
            allocating = self._allocating[device]
            if allocating.shares:
                allocating.shares.pop()
            if not allocating.shares:
                del self._allocating[device]
                if self._is_consumed_anew(device):
                    self._counters.give(pool, device)
        remove_from_all(self._constraints[claim], request.subrequest.name, device)

    def _is_consumed_anew(self, device: DeviceInfo) -> bool:
        """Return True if this pick takes the device's counters: only the first share of a device does."""
        return (
            bool(device.consumes)
            and device not in self._allocating
            and not (device.is_shared and device.id in self._used)
        )


DEAD, SOLVED = DeviceIndices(-1, -1), DeviceIndices(-1, 0)
"""Sentinels: the choice point has no choice left; all devices are chosen."""
