"""Devices of plugins and drivers, and the records of pods and claims that hold some."""

from typing import NamedTuple

import msgspec

from protocols.messages.devices import PodAllocation

CHAOS = "forced by chaos"
"""Health message of an overridden device."""


class DeviceKey(NamedTuple):
    """Device ids are unique only within their resource."""

    resource: str
    id: str

    @property
    def text(self) -> str:
        """Key of the `health` and `allocatable` streams. Only the id may contain spaces."""
        return f"{self.resource} {self.id}"


class PluginOptions(msgspec.Struct, frozen=True):
    """Answer of GetDevicePluginOptions. As in kubelet, options in the Register call are ignored."""

    pre_start: bool = False
    preferred: bool = False


class PluginDevice(msgspec.Struct, frozen=True):
    """A device as its plugin reports it."""

    id: str
    healthy: bool
    numa: tuple[int, ...] = ()
    word: str = ""
    """The health that it sent, where that is none of the two that the API defines; such a device is not healthy."""


class PodRecord(msgspec.Struct, frozen=True):
    """Ledger record of an admitted pod."""

    allocation: PodAllocation
    responses: dict[str, dict[str, bytes]] = {}
    """Raw ContainerAllocateResponse by container, then resource."""
    boot: str = ""
    """Boot id of the machine at the pod's last admission; empty = unknown and not checked."""

    @property
    def has_pod_name(self) -> bool:
        """False for a record from kubelet's checkpoint, which has uids only, until its pod is admitted again."""
        return bool(self.allocation.name)


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


class ClaimInfo(msgspec.Struct):
    """A claim that a pod on this node uses or may use. All but `prepared` survives a restart."""

    namespace: str
    name: str
    uid: str
    pods: set[str] = msgspec.field(default_factory=set)
    drivers: dict[str, tuple[PreparedDevice, ...]] = msgspec.field(default_factory=dict)
    """Every driver of the allocation, with the devices it prepared."""
    prepared: set[str] = msgspec.field(default_factory=set)
    """Drivers that have confirmed the preparation to this process."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def done(self) -> bool:
        return self.prepared >= self.drivers.keys()
