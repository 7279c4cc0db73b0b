"""The vocabulary of DRA on the node."""

from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec


class DeviceName(NamedTuple):
    """A device as ResourceSlices name it."""

    driver: str
    pool: str
    device: str

    @property
    def text(self) -> str:
        """Key of the `dra_health` stream and resourceID of a pod's status."""
        return f"{self.driver}/{self.pool}/{self.device}"


class PreparedDevice(msgspec.Struct, frozen=True):
    """One device of a claim, as its driver prepared it."""

    pool: str
    device: str
    requests: tuple[str, ...] = ()
    """Empty: of every request."""
    cdi_devices: tuple[str, ...] = ()
    share_id: str = ""


@dataclass
class ClaimInfo:
    """A claim somebody on this node uses or may have begun to use. Outlives the process, but for `prepared`."""

    namespace: str
    name: str
    uid: str
    pods: set[str] = field(default_factory=set)
    drivers: dict[str, tuple[PreparedDevice, ...]] = field(default_factory=dict)
    """Every driver of its allocation, with what that driver prepared."""
    prepared: set[str] = field(default_factory=set)
    """Drivers that have said in this life of ours that theirs is done."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def done(self) -> bool:
        return self.prepared >= self.drivers.keys()


class DraLimits(msgspec.Struct, frozen=True):
    """Times, in seconds."""

    call: float = 45.0
    """NodePrepareResources and NodeUnprepareResources."""
    health: float = 30.0
    """Silence after which the health of a device is Unknown, unless its driver names another time."""
    reopen: float = 5.0
    """Pause before a health stream that ended is opened again over the same connection."""
    fresh: float = 15.0
    """A pod whose claims were asked for within this time is no stranger, whatever an older list of pods says."""
    come_back: float = 5.0
    """From the manager's own start until a driver that has not come yet is taken for missing: no pod is to wait longer
    for its next try because the manager died."""
    retry_first: float = 1.0
    retry_most: float = 60.0
    """Pauses between tries to give back what a pod that is long gone has left."""
