"""The pools of a driver, as its ResourceSlices make them. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from supervisor.conform.async_api import Object
from supervisor.conform.dra.objects import Offered


class Pool(NamedTuple):
    """The slices of one pool with its highest generation, and how many have a lower one."""

    name: str
    generation: int
    slices: list[Object]
    outdated: int

    @property
    def counts(self) -> set[int]:
        """Return the values of resourceSliceCount in the pool's slices: one, if they agree."""
        return {int(obj["spec"]["pool"].get("resourceSliceCount", 0)) for obj in self.slices}

    @property
    def complete(self) -> bool:
        return self.counts == {len(self.slices)}

    @property
    def devices(self) -> list[Offered]:
        return [
            Offered(obj["spec"]["driver"], self.name, device)
            for obj in sorted(self.slices, key=lambda obj: str(obj["metadata"]["name"]))
            for device in obj["spec"].get("devices") or ()
        ]


Name: TypeAlias = tuple[str, str]
"""Pool and name of a device."""


def names_of(pools: Sequence[Pool]) -> set[Name]:
    """Return all devices of some pools as pairs of pool and name."""
    return {(pool.name, device.name) for pool in pools for device in pool.devices}


def pools_of(slices: Sequence[Object]) -> list[Pool]:
    """Return the pools by name."""
    slices_by_pool: dict[str, list[Object]] = {}
    for obj in slices:
        slices_by_pool.setdefault(obj["spec"]["pool"]["name"], []).append(obj)
    return [_pool(name, slices_by_pool[name]) for name in sorted(slices_by_pool)]


def _pool(name: str, slices: list[Object]) -> Pool:
    newest = max(map(generation, slices))
    current = [obj for obj in slices if generation(obj) == newest]
    return Pool(name, newest, current, len(slices) - len(current))


def generation(obj: Object) -> int:
    """Return the generation of a slice's pool; 0 if it has none."""
    return int(obj["spec"]["pool"].get("generation", 0))


def usable(pools: Sequence[Pool], node: str) -> Iterator[Offered]:
    """Yield devices of complete pools that pods of the node may use together: without taints, each counter set once."""
    used: set[tuple[str, str]] = set()
    for pool in pools:
        if not pool.complete or not any(_reaches(published, node) for published in pool.slices):
            continue
        for offered in pool.devices:
            sets = {(pool.name, str(counter["counterSet"])) for counter in offered.device.get("consumesCounters") or ()}
            if not offered.device.get("taints") and not sets & used:
                used |= sets
                yield offered


def _reaches(obj: Object, node: str) -> bool:
    return bool(obj["spec"].get("nodeName", node) == node)
