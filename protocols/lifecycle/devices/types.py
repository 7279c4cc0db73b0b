"""Devices of plugins, and the record of a pod that holds some."""

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
