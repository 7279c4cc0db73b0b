"""The search for devices on one node, for all unallocated claims of a pod at once. Pure.

Depth first: claims, their requests, each request's ways in order of preference, devices in order; the first solution
wins. Choice points are generators on a stack of our own: resuming one undoes its choice and makes the next, so that a
search can be left and taken up again, and never recurses.
"""

import functools
import itertools
from collections.abc import Hashable, Iterator

import msgspec

from protocols.dra.allocator.claims import Claim
from protocols.dra.allocator.constraints import (
    Constraint,
    DistinctAttributeConstraint,
    add_to_all,
    constraints_of,
    remove_from_all,
)
from protocols.dra.allocator.plan import ClaimPlan, Ground, Way, plan_of
from protocols.dra.allocator.pruning import PATIENCE, DeadEnds, Equals, hopeless, values_of
from protocols.dra.allocator.shares import added, amounts_of, within
from protocols.dra.allocator.types import (
    MAX_DEVICES,
    AllocationFault,
    Amounts,
    CounterId,
    DeviceInfo,
    NodeFault,
    Pick,
    Pool,
    TimedOut,
    Usage,
)
from protocols.dra.types import Attribute, PoolId


class Counters:
    def __init__(self, used: Usage) -> None:
        self._used = used
        self._left: dict[PoolId, dict[CounterId, int]] = {}

    def take(self, pool: Pool, device: DeviceInfo) -> bool:
        """Every counter the device needs stays at zero or more; else nothing is taken."""
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

    def left(self, way: Way, start: int, all_of_them: bool) -> Hashable:
        """Return the rest of the counters that devices of the way from `start` on consume, or of all."""
        last = way.candidates.last_consumers
        return tuple(
            (pool, counter, amount)
            for pool, left in self._left.items()
            for counter, amount in left.items()
            if all_of_them or last.get((pool, counter), -1) >= start
        )

    def _left_of(self, pool: Pool) -> dict[CounterId, int]:
        """Devices in use count wherever they are: also those this node cannot see."""
        left = self._left.get(pool.id)
        if left is None:
            left = self._left[pool.id] = dict(pool.counters)
            for device in pool.consumers:
                if device.id in self._used:
                    for counter, amount in device.consumes.items():
                        left[counter] -= amount
        return left


class Taken:
    """A device picked by claims of the pod: as a whole, or in shares. Admin access apart."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.shares: list[Amounts] = []

    def consumed(self) -> Amounts:
        return functools.reduce(added, self.shares, {})

    def state(self) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(self.consumed().items()))


STEPS = 1_000_000
FLIGHT = 2_000
"""Steps after which the driver of the search checks the clock."""


class AttemptOptions(msgspec.Struct, frozen=True):
    claims: tuple[Claim, ...]
    ground: Ground
    steps: int = STEPS
    patience: int = PATIENCE


class Spot(msgspec.Struct, frozen=True):
    """Position of the search: a request of a claim, and within it the alternative and the progress."""

    claim: int
    request: int
    way: Way | None = None
    need: int = 0
    start: int = 0


class Attempt:
    """`advance()` until it answers; then `picks` holds the solution, one list a claim. Raises AllocationFault."""

    def __init__(self, options: AttemptOptions) -> None:
        self._options = options
        ground = options.ground
        self._plans: list[ClaimPlan] = [plan_of(claim, ground) for claim in options.claims]
        self._constraints: list[list[Constraint]] = [constraints_of(claim) for claim in options.claims]
        self._counters = Counters(ground.used)
        self._equals = Equals(self._plans, itertools.chain.from_iterable(self._constraints), ground.used)
        self._used = ground.used
        self._dead_ends = DeadEnds()
        self._values: dict[Constraint, frozenset[Attribute]] = {}
        self._taken: dict[DeviceInfo, Taken] = {}
        self.picks: list[list[Pick]] = [[] for _ in options.claims]
        self._stack: list[tuple[Iterator[Spot | None], Hashable]] = [(self._choices(Spot(0, 0)), None)]
        """Choice points, each with the state it began in if that is kept."""
        self.steps = 0

    def run(self) -> bool:
        """To the end, whatever it takes; raises TimedOut as well."""
        while (answer := self.advance()) is None:
            pass
        return answer

    def advance(self, steps: int = FLIGHT) -> bool | None:
        """Up to so many steps; None when that was not enough. Raises AllocationFault, NodeFault, TimedOut."""
        for _ in range(steps):
            if not self._stack:
                return self._nothing()
            self.steps += 1
            if self.steps == self._options.patience + 1 and hopeless(self._plans):
                return self._nothing()
            spot = next(self._stack[-1][0], DEAD)
            if spot is None:
                return True
            if spot is DEAD:
                self._leave(self._stack.pop()[1])
            else:
                self._enter(spot)
        if self.steps >= self._options.steps:
            raise TimedOut("timed out trying to allocate devices")
        return None

    def _enter(self, spot: Spot) -> None:
        state: Hashable = None
        if spot.way and spot.need and self.steps > self._options.patience:
            state = self._state(spot, spot.way)
            if state in self._dead_ends or self._values_run_out(spot, spot.way):
                return
        self._stack.append((self._choices(spot), state))

    def _leave(self, state: Hashable) -> None:
        if state is not None:
            self._dead_ends.add(state)

    def _state(self, spot: Spot, way: Way) -> Hashable:
        """All that the search from here on depends on, equal devices being one."""
        later = spot.request + 1 < len(self._plans[spot.claim].requests) or spot.claim + 1 < len(self._plans)
        taken = [
            ((self._equals.number(each.pool, device), each.state()), device) for device, each in self._taken.items()
        ]
        ahead = sorted(state for state, device in taken if way.candidates.position(device) >= spot.start)
        everywhere = sorted(state for state, _ in taken) if later else ()
        own = tuple(id(pick.device) for pick in self.picks[spot.claim] if pick.admin)
        constraints = tuple(constraint.state() for constraint in self._constraints[spot.claim])
        left = self._counters.left(way, spot.start, later)
        where = (spot.claim, spot.request, id(way), spot.need, spot.start, len(self.picks[spot.claim]))
        return where, tuple(ahead), tuple(everywhere), own, constraints, left

    def _values_run_out(self, spot: Spot, way: Way) -> bool:
        """More devices must differ from here on than there are values."""
        plan = self._plans[spot.claim]
        for constraint in self._constraints[spot.claim]:
            if not isinstance(constraint, DistinctAttributeConstraint) or not constraint.covers(way.subrequest.name):
                continue
            later = plan.requests[spot.request + 1 :]
            covered = [ways for ways in later if all(constraint.covers(each.subrequest.name) for each in ways)]
            need = spot.need + sum(min((each.need for each in ways), default=0) for ways in covered)
            if constraint not in self._values:
                self._values[constraint] = values_of(plan, constraint)
            if constraint.unused(self._values[constraint]) < need:
                return True
        return False

    def _nothing(self) -> bool:
        if any(each.pool.fault for each in self._options.ground.pools):
            raise NodeFault("invalid resource pools were encountered")
        return False

    # choice points: each choice is made before a spot is given, and undone when the next one is asked for

    def _choices(self, spot: Spot) -> Iterator[Spot | None]:
        if spot.claim == len(self._plans):
            yield None
        elif spot.request == len(self._plans[spot.claim].requests):
            yield Spot(spot.claim + 1, 0)
        elif spot.way is None:
            yield from self._ways(spot)
        elif spot.need == 0:
            yield Spot(spot.claim, spot.request + 1)
        elif spot.way.everything:
            yield from self._everything(spot, spot.way)
        else:
            yield from self._devices(spot, spot.way)

    def _ways(self, spot: Spot) -> Iterator[Spot]:
        """Ways that would take the claim past its limit are none."""
        plan = self._plans[spot.claim]
        rest = len(self.picks[spot.claim]) + plan.fewest[spot.request + 1]
        for way in plan.requests[spot.request]:
            if way.need + rest <= MAX_DEVICES:
                yield Spot(spot.claim, spot.request, way, way.need)

    def _devices(self, spot: Spot, way: Way) -> Iterator[Spot]:
        """Choose combinations, not permutations: the next device comes after this one.

        Of indistinguishable devices only the first is tried.
        """
        tried: set[Hashable] = set()
        for at in range(spot.start, len(way.candidates.slots)):
            if not way.candidates.enough(at, spot.need):
                return
            pool, device = way.candidates.slots[at]
            if self._busy(spot.claim, way, device) or not way.candidates.fits(at):
                continue
            if tried and self._equal(pool, device) in tried:
                continue
            if self._take(spot.claim, way, pool, device):
                yield Spot(spot.claim, spot.request, way, spot.need - 1, at + 1)
                self._give(spot.claim, way, pool, device)
            tried.add(self._equal(pool, device))

    def _equal(self, pool: Pool, device: DeviceInfo) -> Hashable:
        """Return the same value for devices whose exchange changes nothing now: equal, and equally consumed."""
        taken = self._taken.get(device)
        return self._equals.number(pool, device), taken.state() if taken is not None else None

    def _everything(self, spot: Spot, way: Way) -> Iterator[Spot]:
        """One device after the other, each or none."""
        slots = way.candidates.slots
        if spot.start >= len(slots):
            return
        pool, device = slots[spot.start]
        if self._busy(spot.claim, way, device) or not way.candidates.fits(spot.start):
            return
        if not add_to_all(self._constraints[spot.claim], way.subrequest.name, device):
            raise AllocationFault(self._broken(spot.claim, way, device))
        remove_from_all(self._constraints[spot.claim], way.subrequest.name, device)
        if self._take(spot.claim, way, pool, device):
            yield Spot(spot.claim, spot.request, way, spot.need - 1, spot.start + 1)
            self._give(spot.claim, way, pool, device)

    def _broken(self, claim: int, way: Way, device: DeviceInfo) -> str:
        where = f"claim {self._plans[claim].claim.key}, request {way.subrequest.name}"
        return f"{where}: cannot add device {'/'.join(device.id)} because a claim constraint would not be satisfied"

    def _busy(self, claim: int, way: Way, device: DeviceInfo) -> bool:
        """Return True for a device in use. Admin access ignores other use, but no claim holds a device twice.

        Of shared devices, a claim may have several shares.
        """
        if device.shared:
            return not way.subrequest.admin and not self._has_room(way, device)
        if not way.subrequest.admin and device in self._taken:
            return True
        return any(pick.device is device for pick in self.picks[claim])

    def _has_room(self, way: Way, device: DeviceInfo) -> bool:
        taken = self._taken.get(device)
        share = way.candidates.share(device) if taken is not None else None
        if taken is None or share is None:  # without picks of this pod, `fits` answers
            return True
        consumed = added(way.candidates.consumed(device), taken.consumed())
        return within(device.spec.capacity, consumed, amounts_of(share))

    def _take(self, claim: int, way: Way, pool: Pool, device: DeviceInfo) -> bool:
        subrequest = way.subrequest
        if not add_to_all(self._constraints[claim], subrequest.name, device):
            return False
        share = way.candidates.share(device)
        if not subrequest.admin:
            if not self._consumes_anew(device) or self._counters.take(pool, device):
                taken = self._taken.setdefault(device, Taken(pool))
                taken.shares += [amounts_of(share)] if share is not None else []
            else:
                remove_from_all(self._constraints[claim], subrequest.name, device)
                return False
        self.picks[claim].append(Pick(subrequest.name, device, subrequest.admin, subrequest.tolerations, share))
        return True

    def _give(self, claim: int, way: Way, pool: Pool, device: DeviceInfo) -> None:
        self.picks[claim].pop()
        if not way.subrequest.admin:
            taken = self._taken[device]
            if taken.shares:
                taken.shares.pop()
            if not taken.shares:
                del self._taken[device]
                if self._consumes_anew(device):
                    self._counters.give(pool, device)
        remove_from_all(self._constraints[claim], way.subrequest.name, device)

    def _consumes_anew(self, device: DeviceInfo) -> bool:
        """Return True if the device takes its shared counters with this pick: its first share takes them for all."""
        return bool(device.consumes) and device not in self._taken and not (device.shared and device.id in self._used)


DEAD = Spot(-1, -1)
"""A choice point that has no choice left."""
