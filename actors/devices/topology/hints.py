"""Topology hints: sets of NUMA nodes as bit masks, and the hints of device plugins' resources."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

import msgspec


class Hint(NamedTuple):
    """One way to place one resource."""

    mask: int | None
    """NUMA nodes as bits; None = no preference."""
    preferred: bool


ANYWHERE = Hint(None, True)
NOWHERE_GOOD = Hint(None, False)

ProviderHints = Mapping[str, list[Hint] | None] | None
"""By resource. None = no preference; an empty list = it cannot be placed."""


def mask_of(nodes: Iterable[int]) -> int:
    """Return the bit mask of NUMA nodes."""
    mask = 0
    for node in nodes:
        mask |= 1 << node
    return mask


def nodes_of(mask: int) -> list[int]:
    """Return the NUMA nodes of a bit mask, in ascending order."""
    return [node for node in range(mask.bit_length()) if mask >> node & 1]


def masks_over(nodes: Iterable[int]) -> Iterator[int]:
    """Yield every non-empty set of `nodes`, small ones first."""
    ordered = sorted(set(nodes))
    for size in range(1, len(ordered) + 1):
        for chosen in combinations(ordered, size):
            yield mask_of(chosen)


class NumaInfo(msgspec.Struct, frozen=True):
    """NUMA nodes and their distances, all equal if the kernel reports none."""

    nodes: tuple[int, ...]
    distances: dict[int, dict[int, int]] = {}

    @property
    def everything(self) -> int:
        return mask_of(self.nodes)

    def average_distance(self, mask: int) -> float:
        """Return the average over all pairs, including a node with itself."""
        nodes = nodes_of(mask)
        total = sum(self.distances.get(one, {}).get(other, 10) for one in nodes for other in nodes)
        return total / len(nodes) ** 2 if nodes else 0.0


class DeviceRequest(NamedTuple):
    """One resource of one container or pod. All ids are of that resource."""

    need: int
    devices: Mapping[str, tuple[int, ...]]
    """NUMA nodes of every device of the resource, whatever its state."""
    available: Iterable[str] = ()
    """Free and healthy devices."""
    reusable: Iterable[str] = ()
    """Devices of init containers of the same pod."""


def device_hints(request: DeviceRequest, nodes: Iterable[int]) -> list[Hint] | None:
    """Return the hints of a resource, or None if it has no topology.

    A hint is preferred if no smaller set of nodes could hold the request on an empty machine: on a full machine bad
    placements would look good otherwise.
    """
    if not any(request.devices.values()):
        return None
    available, reusable = set(request.available), set(request.reusable)
    if len(available | reusable) < request.need:
        return []
    masks = {id: mask_of(numa) for id, numa in request.devices.items()}
    counts = Counter(masks.values())
    usable = Counter(masks.get(id, 0) for id in available | reusable)
    hosting = {node for numa in request.devices.values() for node in numa} & set(nodes)
    reused = {masks[id] for id in reusable if masks.get(id)}
    least, possible = len(hosting or set(nodes)), []
    for mask in masks_over(hosting or nodes):
        if sum(count for own, count in counts.items() if own & mask) >= request.need:
            least = min(least, mask.bit_count())
        if any(not own & mask for own in reused):
            continue
        if sum(count for own, count in usable.items() if own & mask) >= request.need:
            possible.append(mask)
    return [Hint(mask, mask.bit_count() == least) for mask in possible]


class Sorted(NamedTuple):
    """Available devices by how they fit a hint."""

    aligned: list[str]
    unaligned: list[str]
    indifferent: list[str]
    """Devices without NUMA node; all of them without a hint or a topology."""


def sort_by_hint(available: Iterable[str], devices: Mapping[str, tuple[int, ...]], mask: int | None) -> Sorted:
    """Group devices by the hint's nodes and others, nodes with the fewest devices first.

    A device on several nodes counts for the first that fits.
    """
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
