"""Shares of devices that allow multiple allocations, and the capacity each consumes. Pure.

Amounts are nano-units by qualified capacity name. A share consumes every capacity of its device: the requested amount,
rounded up by the driver's requestPolicy; without a request the policy's default; without a policy all of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from protocols.dra.allocator.types import AllocationFault, Amounts, Holdings, Pick
from protocols.dra.decode import qualified
from protocols.dra.pods import device_of
from protocols.dra.types import Capacity, Device, DeviceId, RequestPolicy
from protocols.kube.errors import QuantityInvalid
from protocols.kube.quantity import NANO, Quantity, parse_quantity

Requests = tuple[tuple[str, Quantity], ...]
"""capacity.requests of a request, by the name in the claim, qualified or not."""
Share = Mapping[str, Quantity]
"""Consumption of one share by qualified name."""
NO_REQUESTS: Requests = ()


def requests_of(entry: Mapping[str, Any]) -> Requests:
    """Return capacity.requests of a request or subrequest. Raises AttributeError or ValueError for a wrong shape."""
    requests = (entry.get("capacity") or {}).get("requests") or {}
    return tuple((str(name), _quantity(value)) for name, value in sorted(requests.items()))


def _quantity(value: str) -> Quantity:
    try:
        return parse_quantity(value)
    except QuantityInvalid as error:
        raise ValueError(str(error)) from None


def share_of(driver: str, device: Device, requests: Requests) -> Share | None:
    """Return the consumption of a request on a device, or None if the device cannot serve it even when it is free.

    Raises AllocationFault for a request that is wrong on any device.
    """
    asked = _resolved(driver, requests)
    if any(name not in device.capacity for name in asked):
        return None
    share = {name: _consumption(capacity, asked.get(name)) for name, capacity in device.capacity.items()}
    if name := next((name for name, amount in share.items() if amount.nanos < 0 and name in asked), ""):
        raise AllocationFault(f'capacity "{name}": capacity value is negative')
    fits = all(amount.nanos >= 0 and _can_serve(device.capacity[name], amount) for name, amount in share.items())
    return share if fits else None


def _resolved(driver: str, requests: Requests) -> dict[str, Quantity]:
    requested: dict[str, tuple[str, Quantity]] = {}
    for name, amount in requests:
        full = qualified(driver, name)
        if full in requested:
            raise AllocationFault(f'capacity "{full}" requested both as "{requested[full][0]}" and as "{name}"')
        requested[full] = (name, amount)
    return {full: amount for full, (_, amount) in requested.items()}


def _consumption(capacity: Capacity, asked: Quantity | None) -> Quantity:
    policy = capacity.policy
    if asked is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return asked
    if policy.low is not None:
        return _rounded(asked, policy.low, policy.step)
    return next((value for value in policy.values if asked <= value), asked)


def _rounded(asked: Quantity, low: Quantity, step: Quantity | None) -> Quantity:
    """Raise to the minimum, then to the next whole number of steps from it; steps are of whole units, as upstream."""
    if asked < low:
        return low
    width = _width(step)
    if step is None or not width:
        return asked
    steps = -(-(asked.value() - low.value()) // width)
    return Quantity((low.value() + steps * width) * NANO, step.format)


def _width(step: Quantity | None) -> int:
    """Return the width of a step; 0 if there is none."""
    return abs(step.value()) if step is not None else 0


def _can_serve(capacity: Capacity, amount: Quantity) -> bool:
    return amount <= capacity.value and (capacity.policy is None or _is_allowed(capacity.policy, amount))


def _is_allowed(policy: RequestPolicy, amount: Quantity) -> bool:
    if policy.default is not None and amount == policy.default:
        return True
    if policy.low is None:
        return not policy.values or amount in policy.values
    if policy.high is not None and amount > policy.high:
        return False
    width = _width(policy.step)
    return not width or (amount.value() - policy.low.value()) % width == 0


def amounts_of(share: Share) -> Amounts:
    """Return a share's consumed capacity in nano-units."""
    return {name: amount.nanos for name, amount in share.items()}


def added(one: Amounts, other: Amounts) -> Amounts:
    """Return the sum of two amounts by capacity."""
    if not one:
        return other
    return {
        name: one.get(name, 0) + other.get(name, 0) for name in (*one, *(name for name in other if name not in one))
    }


def lacking(capacity: Mapping[str, Capacity], consumed: Amounts, more: Amounts) -> Iterator[str]:
    """Yield the names of capacities that do not cover both what is consumed and `more`."""
    for name, amount in more.items():
        if name not in capacity or consumed.get(name, 0) + amount > capacity[name].value.nanos:
            yield name


def has_room(capacity: Mapping[str, Capacity], consumed: Amounts, more: Amounts) -> bool:
    """Return True if the capacity covers both what is consumed and `more`."""
    return next(lacking(capacity, consumed, more), None) is None


def spelled(device: Device, name: str) -> str:
    """Return a capacity's name as the driver published it, which is how drivers look it up in a claim's status."""
    return name.partition("/")[2] if name in device.extras.bare else name


def held_by_picks(picks: Iterable[Pick]) -> Holdings:
    """Return the devices and shares that picks of a claim hold. Admin access holds nothing."""
    held: dict[DeviceId, Amounts | None] = {}
    for pick in picks:
        if not pick.admin:
            _hold(held, pick.device.id, None if pick.share is None else amounts_of(pick.share))
    return held


def held_by_results(results: Iterable[Mapping[str, Any]]) -> Holdings:
    """Return the devices and shares of an allocation. A share with unreadable consumption holds its whole device."""
    held: dict[DeviceId, Amounts | None] = {}
    for result in results:
        if not result.get("adminAccess"):
            id = device_of(result)
            _hold(
                held, id, _consumed(id.driver, result.get("consumedCapacity") or {}) if result.get("shareID") else None
            )
    return held


def _hold(found: dict[DeviceId, Amounts | None], id: DeviceId, amounts: Amounts | None) -> None:
    known = found.get(id, {})
    found[id] = None if known is None or amounts is None else added(known, amounts)


def _consumed(driver: str, consumed: Mapping[str, str]) -> Amounts | None:
    try:
        return {qualified(driver, name): max(0, _quantity(value).nanos) for name, value in consumed.items()}
    except (AttributeError, ValueError):
        return None


def together(holdings: Iterable[Holdings]) -> Holdings:
    """Return the devices and shares of several claims together."""
    combined: dict[DeviceId, Amounts | None] = {}
    for holding in holdings:
        for id, amounts in holding.items():
            _hold(combined, id, amounts)
    return combined


class HeldDevices:
    """Devices and shares that claims hold at one moment."""

    def __init__(self, holdings: Iterable[Holdings] = ()) -> None:
        self._devices = together(holdings)

    def __contains__(self, device: object) -> bool:
        return device in self._devices

    def consumed(self, device: DeviceId) -> Amounts | None:
        return self._devices.get(device, {})
