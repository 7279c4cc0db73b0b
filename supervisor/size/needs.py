"""The answer of `nodeplane size`."""

import msgspec

from supervisor.size.load import SizeLoad


class ProcessNeed(msgspec.Struct, frozen=True):
    """One kind of process."""

    name: str
    count: int
    cores_each: float
    """Cores of the busiest process."""
    cores: float
    """Cores of all these processes."""
    memory_each: int
    """Bytes of private memory."""
    memory: int


class Flow(msgspec.Struct, frozen=True):
    """Traffic between two kinds of programs."""

    name: str
    bytes_per_second: float


class Limit(msgspec.Struct, frozen=True):
    """Something that more API processes do not widen."""

    name: str
    share: float
    """Need by limit; above 1 the load does not fit."""


class SizeNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """Needs of a load, as `nodeplane size -o json` prints them."""

    load: SizeLoad
    fits: bool
    """False if one of the limits is exceeded."""
    machines: int
    """Machines for the control plane, each of which has a watch cache, a scheduler and controllers."""
    api_processes: int
    processes: list[ProcessNeed]
    cores: float
    memory: int
    network: list[Flow]
    etcd_members: int
    disk: int
    """Bytes on the disk of each member, or of the embedded store."""
    disk_bytes_per_second: float
    fsyncs_per_second: float
    """At most: writes that come together share one."""
    limits: list[Limit]
    """The first one saturates first."""
