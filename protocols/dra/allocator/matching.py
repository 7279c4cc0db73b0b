"""Whether a device is of a class, and what a request's own selectors say. Pure; answers are kept with the device."""

from collections.abc import Mapping

from protocols.dra.allocator.claims import Want
from protocols.dra.allocator.errors import AllocationFault, SelectorFault
from protocols.dra.allocator.types import Offer, Selectors
from protocols.dra.types import DeviceClass

REMEMBERED = 64
"""Expressions a device keeps the answers of."""


class Matcher:
    """Of one want: all selectors of its class, then its own."""

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
