"""Skip repeated attempts of a search: devices equal to one that failed, and states that were a dead end. Pure.

Both only skip what would fail, so the first solution in order stays the first.
"""

import functools
from collections.abc import Hashable, Iterable, Sequence

from protocols.dra.allocator.candidates import SCANNED, InSteps
from protocols.dra.allocator.constraints import Constraint
from protocols.dra.allocator.plan import ClaimPlan, RequestData
from protocols.dra.allocator.shares import added, amounts_of
from protocols.dra.allocator.types import MAX_DEVICES, AllocatedState, AllocationFault, Amounts, DeviceInfo, Pool
from protocols.dra.types import Attribute

PATIENCE = 500
"""Steps before dead ends are recorded: most searches end sooner and do not pay for it."""
MAX_DEAD_ENDS = 20_000


class EquivalentDevices:
    """Numbers the devices of a node; devices that are equal for these claims have the same number.

    Equal devices fit the same requests, have the same values of all constrained attributes, consume the same counters
    of the same pool, and their shares consume the same and have the same room. Exchanging two of them turns a solution
    into a solution.
    """

    def __init__(self, plans: Sequence[ClaimPlan], constraints: Iterable[Constraint], used: AllocatedState) -> None:
        self._used = used
        requests = [request for plan in plans for alternatives in plan.requests for request in alternatives]
        self._candidates = [request.candidates for request in requests]
        self._chosen_from = [request.candidates for request in requests if not request.all_devices]
        self._all_devices = [frozenset(request.candidates.devices) for request in requests if request.all_devices]
        self._attributes = sorted({constraint.attribute for constraint in constraints})
        self._numbers: dict[DeviceInfo, int] = {}
        self._known: dict[Hashable, int] = {}

    def number(self, pool: Pool, device: DeviceInfo) -> int:
        class_number = self._numbers.get(device)
        if class_number is None:
            class_number = self._numbers[device] = self._known.setdefault(self._trait(pool, device), len(self._known))
        return class_number

    def _trait(self, pool: Pool, device: DeviceInfo) -> Hashable:
        try:
            fits = tuple(candidates.can_take(device) for candidates in self._chosen_from)
            room = self._room(device) if device.is_shared else None
        except AllocationFault:  # a selector fails that the search may never evaluate: this device equals no other
            return device
        whole = tuple(device in all_devices for all_devices in self._all_devices)
        values = tuple(device.spec.attributes.get(name) for name in self._attributes)
        counters = (pool.id, tuple(sorted(device.consumes.items()))) if device.consumes else ()
        return fits, whole, values, counters, room

    def _room(self, device: DeviceInfo) -> Hashable:
        """Return what each request would consume of a shared device, and the free capacity as far as it matters."""
        consumed = self._used.consumed(device.id) or {}
        shares = [
            amounts_of(share) if (share := candidates.share(device)) is not None else None
            for candidates in self._candidates
        ]
        nothing: Amounts = {}
        most = functools.reduce(added, filter(None, shares), nothing)
        free = {name: capacity.value.nanos - consumed.get(name, 0) for name, capacity in device.spec.capacity.items()}
        return (
            tuple(sorted((name, min(amount, most.get(name, 0))) for name, amount in free.items())),
            tuple(tuple(sorted(share.items())) if share is not None else None for share in shares),
            device.id in self._used,
        )


def has_too_few_devices(plans: Iterable[ClaimPlan]) -> InSteps[bool]:
    """Return True if some request has too few devices, whatever the others take.

    Requests for all devices are left to the search, and everything if a selector fails that the search may never
    evaluate.
    """
    try:
        for alternatives in (alternatives for plan in plans for alternatives in plan.requests):
            for request in alternatives:
                if (yield from _has_enough_devices(request)):
                    break
            else:
                return True
    except AllocationFault:
        pass
    return False


def _has_enough_devices(request: RequestData) -> InSteps[bool]:
    candidates, found = request.candidates, 0
    for at in () if request.all_devices else range(len(candidates.devices)):
        if found >= request.num_devices:
            break
        found += candidates.is_fitting(at)
        if at % SCANNED == SCANNED - 1:
            yield
    return request.all_devices or found >= request.num_devices


class DeadEnds:
    """Search states without a solution: a position, and everything that the rest of the search depends on."""

    def __init__(self) -> None:
        self._known: set[Hashable] = set()

    def __contains__(self, state: Hashable) -> bool:
        return state in self._known

    def add(self, state: Hashable) -> None:
        if len(self._known) >= MAX_DEAD_ENDS:
            self._known.clear()
        self._known.add(state)


MAX_VALUES = 2 * MAX_DEVICES
"""With so many values a claim never has too few, whatever it took already."""


def values_of(plan: ClaimPlan, constraint: Constraint) -> InSteps[frozenset[Attribute]]:
    """Return the values that a constraint can meet in the devices its requests may take, MAX_VALUES of them at most."""
    values: set[Attribute] = set()
    requests = (request for alternatives in plan.requests for request in alternatives)
    for request in requests:
        if not constraint.covers(request.subrequest.name):
            continue
        for at, device in enumerate(request.candidates.devices):
            value = device.spec.attributes.get(constraint.attribute)
            if value is not None and value not in values and _may_fit(request, at):
                values.add(value)
            if len(values) >= MAX_VALUES:
                return frozenset(values)
            if at % SCANNED == SCANNED - 1:
                yield
    return frozenset(values)


def _may_fit(request: RequestData, at: int) -> bool:
    try:
        return request.candidates.is_fitting(at)
    except AllocationFault:
        return True
