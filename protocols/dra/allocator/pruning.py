"""Skip repeated attempts of a search: devices equal to one that failed, and states that were a dead end. Pure.

Both only skip what would fail, so the first solution in order stays the first.
"""

import functools
import itertools
from collections.abc import Hashable, Iterable, Sequence

from protocols.dra.allocator.constraints import Constraint
from protocols.dra.allocator.plan import ClaimPlan, Way
from protocols.dra.allocator.shares import added, amounts_of
from protocols.dra.allocator.types import AllocationFault, Amounts, DeviceInfo, Pool, Usage
from protocols.dra.types import Attribute

PATIENCE = 500
"""Steps before dead ends are kept: most searches end sooner and pay nothing."""
MAX_DEAD_ENDS = 20_000


class Equals:
    """Numbers the devices of a node; two have one number if they are equal for these claims.

    That is: each request takes both or neither, constraints read the same values, they consume the same counters of
    the same pool, and shares of them consume the same and have the same room. Exchanging them in a solution gives
    another solution.
    """

    def __init__(self, plans: Sequence[ClaimPlan], constraints: Iterable[Constraint], used: Usage) -> None:
        self._used = used
        ways = [way for plan in plans for ways in plan.requests for way in ways]
        self._ways = [way.candidates for way in ways]
        self._choices = [way.candidates for way in ways if not way.everything]
        self._everything = [frozenset(device for _, device in way.candidates.slots) for way in ways if way.everything]
        self._attributes = sorted({constraint.attribute for constraint in constraints})
        self._numbers: dict[DeviceInfo, int] = {}
        self._known: dict[Hashable, int] = {}

    def number(self, pool: Pool, device: DeviceInfo) -> int:
        found = self._numbers.get(device)
        if found is None:
            found = self._numbers[device] = self._known.setdefault(self._trait(pool, device), len(self._known))
        return found

    def _trait(self, pool: Pool, device: DeviceInfo) -> Hashable:
        try:
            fits = tuple(each.takes(device) for each in self._choices)
            room = self._room(device) if device.shared else None
        except AllocationFault:  # of a selector that the search may never come to: unlike any other
            return device
        whole = tuple(device in each for each in self._everything)
        values = tuple(device.spec.attributes.get(name) for name in self._attributes)
        counters = (pool.id, tuple(sorted(device.consumes.items()))) if device.consumes else ()
        return fits, whole, values, counters, room

    def _room(self, device: DeviceInfo) -> Hashable:
        """Return what each request would consume of a shared device, and the free capacity as far as it matters."""
        consumed = self._used.consumed(device.id) or {}
        shares = [amounts_of(share) if (share := each.share(device)) is not None else None for each in self._ways]
        nothing: Amounts = {}
        most = functools.reduce(added, filter(None, shares), nothing)
        free = {name: each.value.nanos - consumed.get(name, 0) for name, each in device.spec.capacity.items()}
        return (
            tuple(sorted((name, min(amount, most.get(name, 0))) for name, amount in free.items())),
            tuple(tuple(sorted(share.items())) if share is not None else None for share in shares),
            device.id in self._used,
        )


def hopeless(plans: Iterable[ClaimPlan]) -> bool:
    """Return True if some request has too few devices, whatever the others take.

    Requests for all devices are left to the search, and everything if a selector fails that the search may never
    evaluate.
    """
    try:
        return any(not any(map(_suffices, ways)) for plan in plans for ways in plan.requests)
    except AllocationFault:
        return False


def _suffices(way: Way) -> bool:
    fitting = (at for at in range(len(way.candidates.slots)) if way.candidates.fits(at))
    return way.everything or len(list(itertools.islice(fitting, way.need))) >= way.need


class DeadEnds:
    """States from which the search found nothing: a position, and all that the rest of the search depends on."""

    def __init__(self) -> None:
        self._known: set[Hashable] = set()

    def __contains__(self, state: Hashable) -> bool:
        return state in self._known

    def add(self, state: Hashable) -> None:
        if len(self._known) >= MAX_DEAD_ENDS:
            self._known.clear()
        self._known.add(state)


def values_of(plan: ClaimPlan, constraint: Constraint) -> frozenset[Attribute]:
    """Return the values that a constraint can meet in the devices its requests may take."""
    ways = [way for ways in plan.requests for way in ways if constraint.covers(way.subrequest.name)]
    found = (device for way in ways for at, (_, device) in enumerate(way.candidates.slots) if _may_fit(way, at))
    return frozenset(
        value for device in found if (value := device.spec.attributes.get(constraint.attribute)) is not None
    )


def _may_fit(way: Way, at: int) -> bool:
    try:
        return way.candidates.fits(at)
    except AllocationFault:
        return True
