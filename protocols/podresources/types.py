"""The vocabulary of the client. Pods, containers and devices are those of messages/devices.py."""

from collections.abc import Callable
from enum import IntEnum

import msgspec

from protocols.errors import NodeplaneError
from protocols.messages.devices import AllocatedMemory, Device, PodAllocation


class Action(IntEnum):
    """The numbers are the wire's."""

    ADDED = 0
    DELETED = 1
    UPDATED = 2


class PodEvent(msgspec.Struct, frozen=True):
    """A change of the allocation of one pod."""

    action: Action
    pod: PodAllocation
    """The pod after the change; of a deleted one uid, namespace and name. The uid is empty if only List reported it."""


class AllocatableEvent(msgspec.Struct, frozen=True):
    """Exactly the resources that the action concerns."""

    action: Action
    devices: tuple[Device, ...] = ()
    cpus: tuple[int, ...] = ()
    memory: tuple[AllocatedMemory, ...] = ()


class Allocatable(msgspec.Struct, frozen=True):
    """Answer of GetAllocatableResources: what could be allocated exclusively, allocated or not."""

    devices: tuple[Device, ...] = ()
    cpus: tuple[int, ...] = ()
    memory: tuple[AllocatedMemory, ...] = ()


def _silent(text: str) -> None:
    """Ignore a break."""


class WatchOptions(msgspec.Struct, frozen=True):
    """Options of a watch; they hold over all its reconnects."""

    snapshot: bool = True
    """Begin with ADDED for all there is."""
    on_break: Callable[[str], None] = _silent
    """Called with one line when the stream broke; the watch resumes by itself."""


class NotAnswering(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised when no server accepts connections."""


class WatchUnsupported(NodeplaneError, http=501, grpc="UNIMPLEMENTED"):
    """Raised when the server has no watch: kubelet itself, or a gate that is off."""


class WatchRefused(NodeplaneError, http=400, grpc="FAILED_PRECONDITION"):
    """Raised when the server rejects the watch for a lasting reason."""
