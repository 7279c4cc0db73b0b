"""The load that `nodeplane size` is asked about, and what can be no load."""

import math

import msgspec

from supervisor.base.errors import UsageError

FAN_OUT = 10


class SizeLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The load and the machines of `nodeplane size`; rates are a second."""

    nodes: int
    pods: int
    watchers: int
    """Watches of the API that are open at once."""
    writes: float
    """Writes besides the leases of nodes."""
    fan_out: int = FAN_OUT
    """Watches that each write is sent to."""
    object_bytes: int = 4400
    """Size of a pod, node or other object as stored."""
    objects: int = 0
    """Stored objects besides pods, nodes, leases and slices of devices."""
    devices: int = 0
    """Devices in ResourceSlices; if there are any, each placed pod has a claim."""
    patches: float = 0.0
    """Changes of ResourceSlicePatches, each of which applies to all devices."""
    placed: float | None = None
    """Pods that the scheduler places; null: as many as `writes` allows."""
    members: int = 3
    """Members of etcd; 0: the embedded store."""
    compaction_interval: float = 300.0
    """Seconds between two compactions of etcd, as `--etcd-compaction-interval` of the plane."""
    cores: int = 8
    """Cores of a machine."""
    memory_gib: float = 32.0
    """Memory of a machine."""
    link_gbit: float = 10.0
    """Network of a machine, gigabits a second."""
    speed: float = 1.0
    """Speed of a core; 1 is that of the machine on which the costs were measured."""


BOUNDS: dict[str, tuple[float, float]] = {
    "nodes": (1, 1_000_000),
    "pods": (1, 100_000_000),
    "watchers": (1, 100_000_000),
    "writes": (0.1, 1_000_000),
    "fan_out": (1, 1_000_000),
    "object_bytes": (500, 1_500_000),
    "objects": (0, 100_000_000),
    "devices": (0, 100_000_000),
    "patches": (0, 1_000),
    "placed": (0, 100_000),
    "compaction_interval": (1, 86_400),
    "cores": (1, 1_024),
    "memory_gib": (0.5, 65_536),
    "link_gbit": (0.01, 1_000),
    "speed": (0.01, 100),
}
"""Least and most of each; more is a typing error or no cluster."""
MEMBERS = (0, 1, 3, 5, 7)


def checked(load: SizeLoad) -> SizeLoad:
    """Return the load. Raises UsageError, which names the flag."""
    for name, (least, most) in BOUNDS.items():
        value = getattr(load, name)
        if value is not None and not (math.isfinite(value) and least <= value <= most):
            raise UsageError(f"{flag_of(name)} {value:g}: use {least:g} to {most:,.0f}")
    if load.members not in MEMBERS:
        choices = ", ".join(map(str, MEMBERS))
        raise UsageError(f"--members {load.members}: use one of {choices}; 0 is the embedded store")
    if load.fan_out > load.watchers:
        flag = f"--fan-out {load.fan_out}{', the default,' if load.fan_out == FAN_OUT else ''}"
        raise UsageError(f"{flag} is more than --watchers {load.watchers}; use at most that")
    return load


def flag_of(field: str) -> str:
    """Return the flag of a field: `--object-bytes` for `object_bytes`."""
    return f"--{field.replace('_', '-')}"
