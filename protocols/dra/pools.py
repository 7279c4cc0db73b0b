"""Divide the devices and counter sets of a pool into ResourceSlices, of which the API limits the size. Pure."""

from collections.abc import Sequence

from protocols.kube.meta import Object

DEVICES, RICH_DEVICES = 128, 64
"""Devices that the API allows in a slice; fewer when some consume shared counters or have taints."""
COUNTER_SETS = 8
"""Counter sets that the API allows in a slice, which then holds no devices."""


def slice_contents(devices: Sequence[Object], counter_sets: Sequence[Object]) -> list[Object]:
    """Return what each slice holds, those with devices first; there is always one of them."""
    is_rich = any("consumesCounters" in device or "taints" in device for device in devices)
    parts = _parts(devices, RICH_DEVICES if is_rich else DEVICES) or [[]]
    sets = [{"sharedCounters": part} for part in _parts(counter_sets, COUNTER_SETS)]
    return [{"devices": part} for part in parts] + sets


def _parts(items: Sequence[Object], most: int) -> list[list[Object]]:
    return [list(items[at : at + most]) for at in range(0, len(items), most)]
