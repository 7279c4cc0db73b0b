"""Feature gates that change what devices are and how they are allocated."""

from collections.abc import Callable

import msgspec


class Gates(msgspec.Struct, frozen=True):
    """Feature gates of upstream, by the default of each here."""

    attributes: bool = True
    """DRAAdminControlledDeviceAttributes: attributes and capacity of patches."""
    taints: bool = True
    """DRADeviceTaints: taints of patches, and rules."""
    binding: bool = True
    """DRADeviceBindingConditions: devices that are prepared after their allocation."""
    shares: bool = True
    """DRAConsumableCapacity: devices that allow multiple allocations."""


GATE_FIELDS = {
    "DRAAdminControlledDeviceAttributes": "attributes",
    "DRADeviceTaints": "taints",
    "DRADeviceBindingConditions": "binding",
    "DRAConsumableCapacity": "shares",
}
"""Fields of Gates by the names of upstream's feature gates."""


def gates_of(enabled: Callable[[str], bool]) -> Gates:
    """Read the gates; `enabled` returns the state of a feature gate by its name."""
    return Gates(**{field: enabled(name) for name, field in GATE_FIELDS.items()})
