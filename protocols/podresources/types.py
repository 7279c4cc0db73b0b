"""The vocabulary of the client. Pods, containers and devices are those of messages/devices.py."""

from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

import msgspec

from protocols.errors import NodeplaneError
from protocols.messages.devices import AllocatedMemory, Device, PodAllocation


class Action(IntEnum):
    """The numbers are the wire's."""

    ADDED = 0
    DELETED = 1
    UPDATED = 2


class PodEvent(msgspec.Struct, frozen=True):
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
    devices: tuple[Device, ...] = ()
    cpus: tuple[int, ...] = ()
    memory: tuple[AllocatedMemory, ...] = ()


def _silent(text: str) -> None:
    """Ignore a break."""


class WatchOptions(msgspec.Struct, frozen=True):
    snapshot: bool = True
    """Begin with ADDED for all there is."""
    on_break: Callable[[str], None] = _silent
    """Called with one line when the stream broke; the watch resumes by itself."""


class NotAnswering(NodeplaneError):
    """Raised when no server accepts connections."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class WatchUnsupported(NodeplaneError):
    """Raised when the server has no watch: kubelet itself, or a gate that is off."""

    http: ClassVar[int] = 501
    grpc: ClassVar[str] = "UNIMPLEMENTED"


class WatchRefused(NodeplaneError):
    """Raised when the server rejects the watch for a lasting reason."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "FAILED_PRECONDITION"
