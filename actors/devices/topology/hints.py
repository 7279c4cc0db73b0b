"""The vocabulary of topology: sets of NUMA nodes as bit masks, hints over them, and how far nodes are apart."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

import msgspec


class Hint(NamedTuple):
    """One way to place one resource."""

    mask: int | None
    """NUMA nodes as bits; None = anywhere is as good."""
    preferred: bool


ANYWHERE = Hint(None, True)
NOWHERE_GOOD = Hint(None, False)

ProviderHints = Mapping[str, list[Hint] | None] | None
"""By resource. None: no opinion. An empty list: there is no way to place it."""


def mask_of(nodes: Iterable[int]) -> int:
    mask = 0
    for node in nodes:
        mask |= 1 << node
    return mask


def nodes_of(mask: int) -> list[int]:
    return [node for node in range(mask.bit_length()) if mask >> node & 1]


def masks_over(nodes: Iterable[int]) -> Iterator[int]:
    """Every non-empty set of `nodes`, the small ones first."""
    ordered = sorted(set(nodes))
    for size in range(1, len(ordered) + 1):
        for chosen in combinations(ordered, size):
            yield mask_of(chosen)


class NumaInfo(msgspec.Struct, frozen=True):
    """The machine's NUMA nodes, and the distance from each to each (all equal where the kernel tells none)."""

    nodes: tuple[int, ...]
    distances: dict[int, dict[int, int]] = {}

    @property
    def everything(self) -> int:
        return mask_of(self.nodes)

    def average_distance(self, mask: int) -> float:
        """Over all pairs, a node with itself included."""
        nodes = nodes_of(mask)
        total = sum(self.distances.get(one, {}).get(other, 10) for one in nodes for other in nodes)
        return total / len(nodes) ** 2 if nodes else 0.0


class DeviceRequest(NamedTuple):
    """One resource of one container (or pod). All ids are of that resource."""

    need: int
    devices: Mapping[str, tuple[int, ...]]
    """Every device of the resource with its NUMA nodes, whether free, healthy or neither."""
    available: Iterable[str] = ()
    """Free and healthy."""
    reusable: Iterable[str] = ()
    """Of init containers of the same pod."""


def device_hints(request: DeviceRequest, nodes: Iterable[int]) -> list[Hint] | None:
    """None: the resource knows no topology. `nodes`: of the machine.

    Whether a hint is preferred is a matter of how few nodes could hold the request on an empty machine: else a full
    machine would make bad placements look good.
    """
    if not any(request.devices.values()):
        return None
    available, reusable = set(request.available), set(request.reusable)
    if len(available | reusable) < request.need:
        return []
    masks = {id: mask_of(found) for id, found in request.devices.items()}
    counts = Counter(masks.values())
    usable = Counter(masks.get(id, 0) for id in available | reusable)
    hosting = {node for found in request.devices.values() for node in found} & set(nodes)
    least, possible = len(hosting or set(nodes)), []
    for mask in masks_over(hosting or nodes):
        if sum(count for own, count in counts.items() if own & mask) >= request.need:
            least = min(least, mask.bit_count())
        if any(masks.get(id) and not masks[id] & mask for id in reusable):
            continue
        if sum(count for own, count in usable.items() if own & mask) >= request.need:
            possible.append(mask)
    return [Hint(mask, mask.bit_count() == least) for mask in possible]


class Sorted(NamedTuple):
    """Available devices by how they suit a hint."""

    aligned: list[str]
    unaligned: list[str]
    indifferent: list[str]
    """Without a NUMA node; all of them when there is no hint or no topology."""


def sort_by_hint(available: Iterable[str], devices: Mapping[str, tuple[int, ...]], mask: int | None) -> Sorted:
    """A device on several nodes counts for the first that suits; nodes of the hint and others, the emptiest first."""
    ids = sorted(available)
    if mask is None or not any(devices.get(id) for id in ids):
        return Sorted([], [], ids)
    by_node: dict[int, list[str]] = {}
    for id in ids:
        for node in devices.get(id) or (-1,):
            by_node.setdefault(node, []).append(id)
    order = sorted(by_node, key=lambda node: (_group(node, mask), len(by_node[node]), node))
    groups: tuple[list[str], list[str], list[str]] = ([], [], [])
    seen: set[str] = set()
    for node in order:
        groups[_group(node, mask)].extend(id for id in by_node[node] if id not in seen)
        seen.update(by_node[node])
    return Sorted(*groups)


def _group(node: int, mask: int) -> int:
    if node < 0:
        return 2
    return 0 if mask >> node & 1 else 1
