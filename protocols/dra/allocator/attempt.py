"""The search for devices on one node, for all unallocated claims of a pod at once. Pure.

Depth first: claims, their requests, each request's ways in order of preference, devices in order; the first solution
wins. Choice points are generators on a stack of our own: resuming one undoes its choice and makes the next, so that a
search can be left and taken up again, and never recurses.
"""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from protocols.dra.allocator.claims import Claim, Constraint, names_request
from protocols.dra.allocator.plan import ClaimPlan, Ground, Way, plan_of
from protocols.dra.allocator.types import (
    MAX_DEVICES,
    AllocationFault,
    CounterId,
    NodeFault,
    Offer,
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

    def take(self, pool: Pool, offer: Offer) -> bool:
        """Every counter the device needs stays at zero or more; else nothing is taken."""
        if not offer.consumes:
            return True
        left = self._left_of(pool)
        if any(left[counter] < amount for counter, amount in offer.consumes.items()):
            return False
        for counter, amount in offer.consumes.items():
            left[counter] -= amount
        return True

    def give(self, pool: Pool, offer: Offer) -> None:
        left = self._left_of(pool) if offer.consumes else {}
        for counter, amount in offer.consumes.items():
            left[counter] += amount

    def _left_of(self, pool: Pool) -> dict[CounterId, int]:
        """Devices in use count wherever they are: also those this node cannot see."""
        left = self._left.get(pool.id)
        if left is None:
            left = self._left[pool.id] = dict(pool.counters)
            for offer in pool.consumers:
                if offer.id in self._used:
                    for counter, amount in offer.consumes.items():
                        left[counter] -= amount
        return left


class Bond(Protocol):
    def add(self, want: str, offer: Offer) -> bool:
        """False when the device would break it; then nothing changed."""

    def remove(self, want: str, offer: Offer) -> None: ...


class Match:
    """The same value for all devices of the requests."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        self._attribute, self._requests = attribute, requests
        self._count = 0
        self._value: Attribute | None = None

    def add(self, want: str, offer: Offer) -> bool:
        if not names_request(self._requests, want):
            return True
        value = offer.device.attributes.get(self._attribute)
        if value is None or (self._count and value != self._value):
            return False
        self._value, self._count = value, self._count + 1
        return True

    def remove(self, want: str, offer: Offer) -> None:
        if names_request(self._requests, want):
            self._count -= 1


class Distinct:
    """Another value for each device of the requests, within one request too."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        self._attribute, self._requests = attribute, requests
        self._values: set[Attribute] = set()

    def add(self, want: str, offer: Offer) -> bool:
        if not names_request(self._requests, want):
            return True
        value = offer.device.attributes.get(self._attribute)
        if value is None or value in self._values:
            return False
        self._values.add(value)
        return True

    def remove(self, want: str, offer: Offer) -> None:
        if names_request(self._requests, want):
            value = offer.device.attributes.get(self._attribute)
            if value is not None:
                self._values.discard(value)


def bonds_of(claim: Claim) -> list[Bond]:
    return [_bond(constraint) for constraint in claim.constraints]


def _bond(constraint: Constraint) -> Bond:
    if constraint.match:
        return Match(constraint.match, constraint.requests)
    return Distinct(constraint.distinct, constraint.requests)


def join(bonds: list[Bond], want: str, offer: Offer) -> bool:
    """Adds to all or to none."""
    for at, bond in enumerate(bonds):
        if not bond.add(want, offer):
            for added in bonds[:at]:
                added.remove(want, offer)
            return False
    return True


def part(bonds: list[Bond], want: str, offer: Offer) -> None:
    for bond in bonds:
        bond.remove(want, offer)


STEPS = 1_000_000
FLIGHT = 2_000
"""Steps after which the driver of the search checks the clock."""


class AttemptOptions(msgspec.Struct, frozen=True):
    claims: tuple[Claim, ...]
    ground: Ground
    steps: int = STEPS


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
        self._bonds: list[list[Bond]] = [bonds_of(claim) for claim in options.claims]
        self._counters = Counters(ground.used)
        self._taken: set[Offer] = set()
        """Picked by any claim of the pod, admin access apart."""
        self.picks: list[list[Pick]] = [[] for _ in options.claims]
        self._stack: list[Iterator[Spot | None]] = [self._choices(Spot(0, 0))]
        self._steps = 0

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
            spot = next(self._stack[-1], DEAD)
            if spot is DEAD:
                self._stack.pop()
            elif spot is None:
                return True
            else:
                self._stack.append(self._choices(spot))
        self._steps += steps
        if self._steps >= self._options.steps:
            raise TimedOut("timed out trying to allocate devices")
        return None

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
        tried: set[bytes] = set()
        for at in range(spot.start, len(way.candidates.slots)):
            if not way.candidates.enough(at, spot.need):
                return
            pool, offer = way.candidates.slots[at]
            if self._busy(spot.claim, way, offer) or not way.candidates.fits(at):
                continue
            if tried and offer.likeness in tried:
                continue
            if self._take(spot.claim, way, pool, offer):
                yield Spot(spot.claim, spot.request, way, spot.need - 1, at + 1)
                self._give(spot.claim, way, pool, offer)
            tried.add(offer.likeness)

    def _everything(self, spot: Spot, way: Way) -> Iterator[Spot]:
        """One device after the other, each or none."""
        slots = way.candidates.slots
        if spot.start >= len(slots):
            return
        pool, offer = slots[spot.start]
        if self._busy(spot.claim, way, offer) or not way.candidates.fits(spot.start):
            return
        if not join(self._bonds[spot.claim], way.want.name, offer):
            raise AllocationFault(self._broken(spot.claim, way, offer))
        part(self._bonds[spot.claim], way.want.name, offer)
        if self._take(spot.claim, way, pool, offer):
            yield Spot(spot.claim, spot.request, way, spot.need - 1, spot.start + 1)
            self._give(spot.claim, way, pool, offer)

    def _broken(self, claim: int, way: Way, offer: Offer) -> str:
        where = f"claim {self._plans[claim].claim.key}, request {way.want.name}"
        return f"{where}: cannot add device {'/'.join(offer.id)} because a claim constraint would not be satisfied"

    def _busy(self, claim: int, way: Way, offer: Offer) -> bool:
        """Return True for a device in use. Admin access ignores other use, but no claim holds a device twice."""
        if not way.want.admin and offer in self._taken:
            return True
        return any(pick.offer is offer for pick in self.picks[claim])

    def _take(self, claim: int, way: Way, pool: Pool, offer: Offer) -> bool:
        want = way.want
        if not join(self._bonds[claim], want.name, offer):
            return False
        if not want.admin:
            if not self._counters.take(pool, offer):
                part(self._bonds[claim], want.name, offer)
                return False
            self._taken.add(offer)
        self.picks[claim].append(Pick(want.name, offer, want.admin, want.tolerations))
        return True

    def _give(self, claim: int, way: Way, pool: Pool, offer: Offer) -> None:
        self.picks[claim].pop()
        if not way.want.admin:
            self._taken.remove(offer)
            self._counters.give(pool, offer)
        part(self._bonds[claim], way.want.name, offer)


DEAD = Spot(-1, -1)
"""A choice point that has no choice left."""
