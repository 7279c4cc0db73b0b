"""Types of dynamic resource allocation on the node."""

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
        """Key of the `dra_health` stream, and resourceID in pod status."""
        return f"{self.driver}/{self.pool}/{self.device}"


class PreparedDevice(msgspec.Struct, frozen=True):
    """One device of a claim as its driver prepared it."""

    pool: str
    device: str
    requests: tuple[str, ...] = ()
    """Empty: all requests."""
    cdi_devices: tuple[str, ...] = ()
    share_id: str = ""


@dataclass
class ClaimInfo:
    """A claim that a pod on this node uses or may use. All but `prepared` survives a restart."""

    namespace: str
    name: str
    uid: str
    pods: set[str] = field(default_factory=set)
    drivers: dict[str, tuple[PreparedDevice, ...]] = field(default_factory=dict)
    """Every driver of the allocation, with the devices it prepared."""
    prepared: set[str] = field(default_factory=set)
    """Drivers that have confirmed the preparation to this process."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def done(self) -> bool:
        return self.prepared >= self.drivers.keys()


class DraLimits(msgspec.Struct, frozen=True):
    """Times in seconds."""

    call: float = 45.0
    """Deadline of NodePrepareResources and NodeUnprepareResources."""
    health: float = 30.0
    """Silence after which a device is Unknown, unless its driver sets another timeout."""
    reopen: float = 5.0
    """Pause before a health stream that ended is opened again on the same connection."""
    fresh: float = 15.0
    """A pod whose claims were requested within this time is not orphaned, whatever an older list of pods shows."""
    reconnect_wait: float = 5.0
    """Time after the manager's start until a driver that has not registered counts as missing. It is short: pods wait
    for it before their next try."""
    retry_first: float = 1.0
    retry_max: float = 60.0
    """Bounds of the backoff between tries to unprepare the claims of a deleted pod."""
