"""The devices of a DRA driver, from its ResourceSlices, as a script lists them. Pure."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

FIELDS = (
    "attributes", "capacity", "consumesCounters", "taints", "allowMultipleAllocations", "bindsToNode",
    "bindingConditions", "bindingFailureConditions",
)  # fmt: skip
"""Fields of a device in a ResourceSlice that scripts have, too."""
MOST_BYTES = 700 << 10
"""Devices of a script, as JSON: a script has a mebibyte at most, and its steps need room."""
MOST_DEVICES = 10_000

Object = dict[str, Any]


class Published(NamedTuple):
    devices: tuple[Object, ...] = ()
    counters: tuple[Object, ...] = ()
    omitted: int = 0
    """Devices and counter sets beyond MOST_BYTES, and devices of a second pool with the name of another."""


def published(slices: Iterable[Object], node: str) -> Published:
    """Return the devices of the newest generation of each pool: those of this node, or all if none is this node's."""
    specs = [item["spec"] for item in slices]
    specs = [spec for spec in specs if spec.get("nodeName") == node] or specs
    newest: dict[str, int] = {}
    for spec in specs:
        newest[_pool(spec)] = max(newest.get(_pool(spec), 0), _generation(spec))
    current = [spec for spec in specs if _generation(spec) == newest[_pool(spec)]]
    found = [_device(device) for spec in current for device in spec.get("devices") or ()]
    counters = [counter for spec in current for counter in spec.get("sharedCounters") or ()]
    devices: dict[str, Object] = {}
    for device in found:
        devices.setdefault(device["name"], device)
    kept = _within([*counters, *devices.values()], MOST_BYTES)
    shown = tuple(kept[len(counters) :][:MOST_DEVICES])
    sets = tuple(kept[: len(counters)])
    return Published(shown, sets, len(found) + len(counters) - len(shown) - len(sets))


def _pool(spec: Object) -> str:
    return str((spec.get("pool") or {}).get("name", ""))


def _generation(spec: Object) -> int:
    return int((spec.get("pool") or {}).get("generation") or 0)


def _device(device: Object) -> Object:
    return {"name": device["name"], **{name: device[name] for name in FIELDS if device.get(name)}}


def _within(items: list[Object], most: int) -> list[Object]:
    for at, item in enumerate(items):
        most -= len(json.dumps(item))
        if most < 0:
            return items[:at]
    return items
