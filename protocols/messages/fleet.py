"""Output of `nodeplane fleet` about a fleet that runs, and the label by which its objects are found."""

from typing import Any

import msgspec

FLEET = "nodeplane.dev/fleet"
"""Label of every object that a fleet makes: its name."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes, devices and pods that a fault hit."""

    text: str = ""
    """All of it in a line."""
    nodes: int
    devices: int
    """Devices that it hit on these nodes."""
    pods: int
    """Pods that crashed, that hold a device or that are on a node that fell silent."""


class PlayedFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of this run."""

    at: float
    """Seconds since all nodes were registered."""
    fault: dict[str, Any]
    """Its fields, as a step of a script has them."""
    hit: Hit


class DeviceCount(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of a plugin or a driver by their health."""

    name: str
    """Resource of the plugin, or name of the driver."""
    health: dict[str, int]
    """Number of devices by Healthy, Unhealthy and Unknown."""


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet that runs."""

    name: str
    nodes: int
    registered: int
    """Nodes with a Node object and a lease."""
    silent: int
    """Nodes that report nothing, or that others deleted."""
    pods: dict[str, int]
    """Pods by phase."""
    devices: tuple[DeviceCount, ...]
    writes: int
    """Statuses of pods that were written."""
    events_dropped: int
    """Events beyond the limit of those that wait."""
    seed: int
    """The seed of all draws."""
    fault_count: int
    faults: tuple[PlayedFault, ...]
    """The last faults, the oldest first."""
