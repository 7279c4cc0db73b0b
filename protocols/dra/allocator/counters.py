"""What is left of the counters that devices of a pool share. Pure.

Invariant: give() undoes exactly one take() that answered True.
"""

from protocols.dra.allocator.types import CounterId, Offer, Pool, Usage
from protocols.dra.types import PoolId


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
