"""What devices of a claim must have in common, or must not. Pure. Values are equal in kind and text: versions too.

Invariant: after remove() of everything added the state is as fresh.
"""

from typing import Protocol

from protocols.dra.allocator.claims import Claim, Constraint, names_request
from protocols.dra.allocator.types import Offer
from protocols.dra.types import Attribute


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
