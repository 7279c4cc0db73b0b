"""Constraints of a claim while devices are chosen and given back. Pure."""

from collections.abc import Hashable
from typing import Protocol

from protocols.dra.allocator.claims import Claim, Constraint, names_request
from protocols.dra.allocator.types import DeviceInfo
from protocols.dra.types import Attribute


class Bond(Protocol):
    attribute: str

    def covers(self, subrequest: str) -> bool: ...

    def state(self) -> Hashable:
        """All that later answers depend on."""

    def add(self, subrequest: str, device: DeviceInfo) -> bool:
        """False when the device would break it; then nothing changed."""

    def remove(self, subrequest: str, device: DeviceInfo) -> None: ...


class Match:
    """The same value for all devices of the requests."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        self.attribute, self._requests = attribute, requests
        self._count = 0
        self._value: Attribute | None = None

    def covers(self, subrequest: str) -> bool:
        return names_request(self._requests, subrequest)

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


class Distinct:
    """Another value for each device of the requests, within one request too."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        self.attribute, self._requests = attribute, requests
        self._values: set[Attribute] = set()

    def covers(self, subrequest: str) -> bool:
        return names_request(self._requests, subrequest)

    def state(self) -> Hashable:
        return frozenset(self._values)

    def unused(self, values: frozenset[Attribute]) -> int:
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


def bonds_of(claim: Claim) -> list[Bond]:
    return [_bond(constraint) for constraint in claim.constraints]


def _bond(constraint: Constraint) -> Bond:
    if constraint.match:
        return Match(constraint.match, constraint.requests)
    return Distinct(constraint.distinct, constraint.requests)


def join(bonds: list[Bond], subrequest: str, device: DeviceInfo) -> bool:
    """Adds to all or to none."""
    for at, bond in enumerate(bonds):
        if not bond.add(subrequest, device):
            for added in bonds[:at]:
                added.remove(subrequest, device)
            return False
    return True


def part(bonds: list[Bond], subrequest: str, device: DeviceInfo) -> None:
    for bond in bonds:
        bond.remove(subrequest, device)
