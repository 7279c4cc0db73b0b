"""The devices of a DRA driver, from its ResourceSlices, as a script lists them. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from supervisor.capture.parts import DEVICES_ROOM, Step, time_of, within

FIELDS = (
    "attributes", "capacity", "consumesCounters", "taints", "allowMultipleAllocations", "bindsToNode",
    "bindingConditions", "bindingFailureConditions",
)  # fmt: skip
"""Fields of a device in a ResourceSlice that scripts have, too."""
MOST_DEVICES = 10_000
MOST_CHANGES = 1_000
"""Changes of the offered devices that are played."""
FIRST_NS = 2 * 10**9
"""Devices published so long after the registration are those that the driver begins with."""

Object = dict[str, Any]
Version = tuple[int, Sequence[Object]]
"""The slices of a driver since a time, in ns."""


class Published(NamedTuple):
    """Devices of a driver as a script lists them."""

    devices: tuple[Object, ...] = ()
    counters: tuple[Object, ...] = ()
    omitted: int = 0
    """Devices and counter sets beyond DEVICES_ROOM, and devices of a second pool with the name of another."""
    offered: tuple[tuple[int, frozenset[str]], ...] = ()
    """The names of the devices offered since a time, in ns, where several versions of the slices are known."""


def published_over_time(versions: Iterable[Version], node: str) -> Published:
    """Return the devices of all versions, each as it was last, and when which were offered.

    Versions in the middle of an update are left out, and those without slices, which the node deletes when the driver
    is gone.
    """
    last = Published()
    devices: dict[str, Object] = {}
    offered: list[tuple[int, frozenset[str]]] = []
    for at_ns, slices in versions:
        if slices and _complete(slices):
            last = published(slices, node)
            devices |= {device["name"]: device for device in last.devices}
            names = frozenset(device["name"] for device in last.devices)
            offered += [(at_ns, names)] if not offered or offered[-1][1] != names else []
    kept = within(list(devices.values()), DEVICES_ROOM)[:MOST_DEVICES]
    omitted = last.omitted + len(devices) - len(kept) + len(offered[MOST_CHANGES:])
    return Published(tuple(kept), last.counters, omitted, tuple(offered[:MOST_CHANGES]))


def _complete(slices: Sequence[Object]) -> bool:
    """Return True if all slices of each pool's newest generation are there."""
    counts: dict[tuple[str, int], int] = {}
    for obj in slices:
        key = (_pool(obj["spec"]), _generation(obj["spec"]))
        counts[key] = counts.get(key, 0) + 1
    newest = {pool: max(at for name, at in counts if name == pool) for pool, _ in counts}
    specs = [obj["spec"] for obj in slices if _generation(obj["spec"]) == newest[_pool(obj["spec"])]]
    return all((spec.get("pool") or {}).get("resourceSliceCount", 1) == counts[_pool(spec), _generation(spec)]
               for spec in specs)  # fmt: skip


def offers(known: Published, zero_ns: int) -> tuple[set[str], list[Step]]:
    """Return the devices that are not offered at first, and the steps in which devices come and go."""
    first = max((at for at, (time_ns, _) in enumerate(known.offered) if time_ns <= zero_ns + FIRST_NS), default=0)
    names = {device["name"] for device in known.devices}
    present, steps = known.offered[first][1] & names if known.offered else names, []
    away = names - present
    for at_ns, offered in known.offered[first + 1 :] if zero_ns else ():
        changes = {"add": sorted(offered & names - present), "remove": sorted(present - offered)}
        if any(changes.values()):  # else it changed devices that were cut
            steps.append(
                {"at": time_of(at_ns, zero_ns), **{name: devices for name, devices in changes.items() if devices}}
            )
        present = offered & names
    return away, steps


def published(slices: Iterable[Object], node: str) -> Published:
    """Return the devices of the newest generation of each pool: those of this node, or all if none is this node's."""
    specs = [item["spec"] for item in slices]
    specs = [spec for spec in specs if spec.get("nodeName") == node] or specs
    newest: dict[str, int] = {}
    for spec in specs:
        newest[_pool(spec)] = max(newest.get(_pool(spec), 0), _generation(spec))
    current = [spec for spec in specs if _generation(spec) == newest[_pool(spec)]]
    all_devices = [_device(device) for spec in current for device in spec.get("devices") or ()]
    counters = [counter for spec in current for counter in spec.get("sharedCounters") or ()]
    devices: dict[str, Object] = {}
    for device in all_devices:
        devices.setdefault(device["name"], device)
    kept = within([*counters, *devices.values()], DEVICES_ROOM)
    shown = tuple(kept[len(counters) :][:MOST_DEVICES])
    sets = tuple(kept[: len(counters)])
    return Published(shown, sets, len(all_devices) + len(counters) - len(shown) - len(sets))


def _pool(spec: Object) -> str:
    return str((spec.get("pool") or {}).get("name", ""))


def _generation(spec: Object) -> int:
    return int((spec.get("pool") or {}).get("generation") or 0)


def _device(device: Object) -> Object:
    return {"name": device["name"], **{name: device[name] for name in FIELDS if device.get(name)}}
