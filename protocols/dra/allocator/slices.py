"""From patched slices to pools. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from protocols.dra.allocator.types import CounterId, Offer, Pool
from protocols.dra.types import Device, DeviceId, PoolId, Reach, Slice

NOWHERE = Reach()


class Part(msgspec.Struct, frozen=True, eq=False):
    """One slice, and what it offers."""

    slice: Slice
    offers: tuple[Offer, ...]

    @property
    def node(self) -> str:
        """The only node that may see it; empty = any may, and it must be looked at."""
        return self.slice.reach.node


def part_of(slice_: Slice, known: Part | None = None) -> Part:
    return Part(slice_, tuple(_offers(slice_, {offer.id: offer for offer in known.offers} if known else {})))


def _offers(slice_: Slice, known: Mapping[DeviceId, Offer]) -> Iterator[Offer]:
    for device in slice_.devices:
        id = DeviceId(slice_.driver, slice_.pool, device.name)
        reach = (device.extras.reach or NOWHERE) if slice_.reach.per_device else slice_.reach
        old = known.get(id)
        same = old is not None and old.device == device and old.reach == reach
        yield old if old is not None and same else Offer(id, device, reach, _consumption(device))


def _consumption(device: Device) -> dict[CounterId, int]:
    uses = device.extras.consumes
    return {(use.counter_set, name): amount.nanos for use in uses for name, amount in use.counters.items()}


def pool_of(id: PoolId, parts: Iterable[Part]) -> Pool:
    """Only the newest generation counts; more or fewer slices than announced are an update under way."""
    newest = _newest(parts)
    sets = [each for part in newest for each in part.slice.counters]
    counters = {(each.name, name): amount.nanos for each in sets for name, amount in each.counters.items()}
    offers = tuple(offer for part in newest for offer in part.offers)
    fault = _doubled("counter set", (each.name for each in sets)) or _doubled("device", (each.id[2] for each in offers))
    complete = all(part.slice.count == len(newest) for part in newest)
    return Pool(id, offers, counters, complete, fault or _dangling(offers, counters))


def _newest(parts: Iterable[Part]) -> list[Part]:
    """In the order of their names, so that the first fit can be repeated."""
    known = sorted(parts, key=lambda part: part.slice.name)
    newest = max((part.slice.generation for part in known), default=0)
    return [part for part in known if part.slice.generation == newest]


def _doubled(kind: str, names: Iterable[str]) -> str:
    doubled = next((name for name, count in Counter(names).items() if count > 1), "")
    return f"duplicate {kind} name {doubled}" if doubled else ""


def _dangling(offers: tuple[Offer, ...], counters: Mapping[CounterId, int]) -> str:
    sets = {name for name, _ in counters}
    for offer in offers:
        for name, counter in offer.consumes:
            if name not in sets:
                return f"counter set {name} not found"
            if (name, counter) not in counters:
                return f"counter {counter} not found in counter set {name}"
    return ""
