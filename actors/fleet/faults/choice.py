"""Choose what a fault hits: nodes, devices, pods. Pure; the same seed chooses the same of the same fleet."""

import math
import random
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from actors.fleet.faults.script import Fault, device_share, fraction

T = TypeVar("T")


def draws(*key: object) -> random.Random:
    """Return what draws for one fault of one run."""
    return random.Random("/".join(map(str, key)))


def amount(of: int, share: float, random: random.Random) -> int:
    """Return a share of a number, within one of it; rounded up and down so that it is right on average."""
    exact = of * share
    return math.floor(exact) + (random.random() < exact % 1)


def drawn(items: Sequence[T], number: int, random: random.Random) -> list[T]:
    """Return so many of the items, in their order."""
    return [items[at] for at in sorted(random.sample(range(len(items)), min(number, len(items))))]


def choose_share(items: Sequence[T], share: float | None, random: random.Random) -> list[T]:
    """Return a share of the items; None for all of them."""
    return list(items) if share is None else drawn(items, amount(len(items), share, random), random)


def choose_nodes(fault: Fault, groups: Mapping[str, str], random: random.Random) -> list[str]:
    """Return the names of the nodes that a fault hits. `groups`: the group of each node, in the fleet's order."""
    named = [name for name, group in groups.items() if fault.group in ("", group) and fnmatchcase(name, fault.nodes)]
    return drawn(named, fault.count, random) if fault.count else choose_share(named, fraction(fault.share), random)


def choose_devices(fault: Fault, devices: Mapping[str, Sequence[str]], random: random.Random) -> dict[str, list[str]]:
    """Return the ids of the devices that a fault hits, by node. `devices`: ids of those that it may hit."""
    if isinstance(fault.devices, int):
        return {node: drawn(ids, fault.devices, random) for node, ids in devices.items()}
    if (share := device_share(fault)) is not None:
        return share_of_devices(devices, share, random)
    return {node: [id for id in ids if _is_named(id, fault.devices)] for node, ids in devices.items()}


def share_of_devices(
    devices: Mapping[str, Sequence[str]], share: float | None, random: random.Random
) -> dict[str, list[str]]:
    """Return a share of all these devices, by node."""
    chosen: dict[str, list[str]] = {node: [] for node in devices}
    for node, id in choose_share([(node, id) for node, ids in devices.items() for id in ids], share, random):
        chosen[node].append(id)
    return chosen


def _is_named(id: str, pattern: str) -> bool:
    """Return True for an id, or the device's name in DRIVER/POOL/DEVICE, that the pattern fits."""
    return not pattern or fnmatchcase(id, pattern) or fnmatchcase(id.rpartition("/")[2], pattern)
