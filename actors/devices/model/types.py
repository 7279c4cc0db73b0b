"""The vocabulary of the device manager."""

from typing import NamedTuple

import msgspec

from protocols.messages.devices import PodAllocation

CHAOS = "forced by chaos"
"""Why a device has the health that somebody ordered."""


class DeviceKey(NamedTuple):
    """Device ids are unique within their resource only."""

    resource: str
    id: str

    @property
    def text(self) -> str:
        """Key of the `health` and `allocatable` streams; a resource name has no space, an id may."""
        return f"{self.resource} {self.id}"


class PluginOptions(msgspec.Struct, frozen=True):
    """What GetDevicePluginOptions said; the options of the Register call are ignored, as kubelet does."""

    pre_start: bool = False
    preferred: bool = False


class PluginDevice(msgspec.Struct, frozen=True):
    """One device in the plugin's own words."""

    id: str
    healthy: bool
    numa: tuple[int, ...] = ()


class PodRecord(msgspec.Struct, frozen=True):
    """What the ledger keeps of an admitted pod."""

    allocation: PodAllocation
    responses: dict[str, dict[str, bytes]] = {}
    """By container, then resource: the plugin's ContainerAllocateResponse as it came over the wire."""
    boot: str = ""
    """Boot of the machine in which the pod was last admitted; empty = not known, and not asked about."""

    @property
    def named(self) -> bool:
        """Kubelet's checkpoint knows a pod by its uid only: such a record waits for its pod to be admitted again."""
        return bool(self.allocation.name)


class Limits(msgspec.Struct, frozen=True):
    """Deadlines, in seconds."""

    dial: float = 10.0
    """From Register to an answer of the plugin's socket."""
    call: float = 30.0
    """Allocate, GetPreferredAllocation, PreStartContainer."""
    stop_grace: float = 300.0
    """From the end of a plugin's stream until its devices leave the capacity; the resource's key stays, with 0."""
    come_back: float = 10.0
    """From the manager's own start until a plugin it knew before is taken for gone, and its pods are refused."""
    claiming: float = 30.0
    """From a start without any memory until new pods are admitted, should podworker not tell what runs."""
    claimed: float = 2.0
    """From podworker's word on what there is until new pods are admitted; what runs claims its devices meanwhile."""
    commit_retry: float = 1.0
    """Pause before a refused checkpoint is tried again."""
