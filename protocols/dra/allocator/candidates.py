"""The devices of a node that one want may be given, in their order, judged only when the search comes by. Pure."""

from collections.abc import Callable, Iterable, Iterator

from protocols.dra.allocator.claims import ALL, Want
from protocols.dra.allocator.errors import AllocationFault
from protocols.dra.allocator.types import NodePool, Offer, Pool, Usage
from protocols.dra.tolerations import usable

Slot = tuple[Pool, Offer]


class Candidates:
    """Of one want on one node. What does not change during a search is judged once per device."""

    def __init__(
        self, want: Want, slots: tuple[Slot, ...], used: Usage, matches: Callable[[Offer], bool], taints: bool
    ) -> None:
        self.want = want
        self.slots = slots
        self._used = used
        self._matches = matches
        self._taints = taints
        self._fit: list[bool | None] = [None] * len(slots)
        self._lost = 0

    def fits(self, at: int) -> bool:
        """Raises AllocationFault."""
        known = self._fit[at]
        if known is None:
            known = self._fit[at] = self._judge(self.slots[at][1])
            self._lost += not known
        return known

    def enough(self, start: int, need: int) -> bool:
        """Whether so many may still be found from `start` on; True while nobody knows."""
        left = len(self.slots) - start
        if left - self._lost >= need:
            return True
        return sum(fit is not False for fit in self._fit[start:]) >= need

    def _judge(self, offer: Offer) -> bool:
        if not self.want.admin and offer.id in self._used:
            return False
        if offer.binding or not self._matches(offer):
            return False
        return not self._taints or usable(offer.device.taints, self.want.tolerations)


def slots_of(pools: Iterable[NodePool]) -> tuple[Slot, ...]:
    """Devices that may be picked one by one: of pools that are whole and valid."""
    sound = (each for each in pools if each.pool.complete and not each.pool.fault)
    return tuple((each.pool, offer) for each in sound for offer in each.offers)


def all_of(claim: str, want: Want, pools: Iterable[NodePool], matches: Callable[[Offer], bool]) -> Iterator[Slot]:
    """Every device that is asked for, in use or not. Raises AllocationFault where that is not known now."""
    assert want.mode == ALL
    for each in pools:
        pool = each.pool
        if not pool.complete or pool.fault:
            state = "being updated" if not pool.complete else "invalid"
            raise AllocationFault(
                f"claim {claim}, request {want.name}: asks for all devices, but resource pool"
                f" {pool.id[0]}/{pool.id[1]} is currently {state}"
            )
        yield from ((pool, offer) for offer in each.offers if not offer.binding and matches(offer))
