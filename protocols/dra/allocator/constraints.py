"""Constraints of a claim, which the search asks before each device it adds. Pure."""

from collections.abc import Hashable
from typing import Protocol

from protocols.dra.allocator.claims import Claim, DeviceConstraint, is_referenced
from protocols.dra.allocator.types import DeviceInfo
from protocols.dra.types import Attribute


class Constraint(Protocol):
    """A constraint with the devices of a partial solution."""

    attribute: str

    def covers(self, subrequest: str) -> bool:
        """Return True if devices of this subrequest are constrained."""

    def state(self) -> Hashable:
        """Return everything that the results of later calls of `add` depend on."""

    def add(self, subrequest: str, device: DeviceInfo) -> bool:
        """Add a device, or return False, unchanged, if the device would violate the constraint."""

    def remove(self, subrequest: str, device: DeviceInfo) -> None: ...


class MatchAttributeConstraint:
    """All devices of the requests have the same value of the attribute."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        self.attribute, self._requests = attribute, requests
        self._count = 0
        self._value: Attribute | None = None

    def covers(self, subrequest: str) -> bool:
        return is_referenced(self._requests, subrequest)

    def state(self) -> Hashable:
        return self._value if self._count else None

    def add(self, subrequest: str, device: DeviceInfo) -> bool:
        if not self.covers(subrequest):
            return True
        value = device.spec.attributes.get(self.attribute)
        if value is None or (self._count and value != self._value):
            return False
        self._value, self._count = value, self._count + 1
        return True

    def remove(self, subrequest: str, device: DeviceInfo) -> None:
        if self.covers(subrequest):
            self._count -= 1


class DistinctAttributeConstraint:
    """No two devices of the requests, nor of one request, have the same value of the attribute."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        self.attribute, self._requests = attribute, requests
        self._values: set[Attribute] = set()

    def covers(self, subrequest: str) -> bool:
        return is_referenced(self._requests, subrequest)

    def state(self) -> Hashable:
        return frozenset(self._values)

    def unused(self, values: frozenset[Attribute]) -> int:
        """Return how many of the values no added device has."""
        return len(values - self._values)

    def add(self, subrequest: str, device: DeviceInfo) -> bool:
        if not self.covers(subrequest):
            return True
        value = device.spec.attributes.get(self.attribute)
        if value is None or value in self._values:
            return False
        self._values.add(value)
        return True

    def remove(self, subrequest: str, device: DeviceInfo) -> None:
        if self.covers(subrequest):
            value = device.spec.attributes.get(self.attribute)
            if value is not None:
                self._values.discard(value)


def constraints_of(claim: Claim) -> list[Constraint]:
    """Return fresh constraints for one search; each records the devices added so far."""
    return [_constraint(constraint) for constraint in claim.constraints]


def _constraint(constraint: DeviceConstraint) -> Constraint:
    if constraint.match:
        return MatchAttributeConstraint(constraint.match, constraint.requests)
    return DistinctAttributeConstraint(constraint.distinct, constraint.requests)


def add_to_all(constraints: list[Constraint], subrequest: str, device: DeviceInfo) -> bool:
    """Add a device to all constraints, or return False if one is violated: then none has it."""
    for at, constraint in enumerate(constraints):
        if not constraint.add(subrequest, device):
            for added in constraints[:at]:
                added.remove(subrequest, device)
            return False
    return True


def remove_from_all(constraints: list[Constraint], subrequest: str, device: DeviceInfo) -> None:
    """Undo a successful `add_to_all` of the same device."""
    for constraint in constraints:
        constraint.remove(subrequest, device)
