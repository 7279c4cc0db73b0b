"""The allocator's vocabulary, on top of protocols.dra.types."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import msgspec

from protocols.dra.types import Device, DeviceId, PoolId, Reach
from protocols.errors import NodeplaneError
from protocols.kube.quantity import Quantity
from protocols.kube.selectors import selects

MAX_DEVICES = 32
"""Results a claim may hold."""

CounterId = tuple[str, str]
"""Counter set, counter."""
Toleration = Mapping[str, Any]
Amounts = Mapping[str, int]
"""Nano-units by qualified capacity name."""
Holdings = Mapping[DeviceId, Amounts | None]
"""Devices that a claim holds, each with the capacity its shares consume; None for a whole device."""


class Node(NamedTuple):
    """Name and labels of a node, which decide which devices it reaches."""

    name: str
    labels: Mapping[str, str]


def is_reachable(reach: Reach, node: Node) -> bool:
    """Return True if a device with this reach is usable on the node: everywhere, by name, or by node selector."""
    if reach.everywhere or (reach.node and reach.node == node.name):
        return True
    return reach.selector is not None and selects(reach.selector, node.name, node.labels)


class DeviceInfo(msgspec.Struct, eq=False):
    """A device of one generation of its pool.

    An unchanged device keeps its DeviceInfo when its slice changes, so that cached results stay valid.
    """

    id: DeviceId
    spec: Device
    """The device as its slice describes it, with patches applied."""
    reach: Reach
    consumes: Mapping[CounterId, int]
    """Nano-units taken of the pool's shared counters."""
    matched: dict[str, bool] = msgspec.field(default_factory=dict)
    """Results of selectors by expression. Matcher bounds it."""

    @property
    def is_shared(self) -> bool:
        """Return True if the device allows multiple allocations."""
        return self.spec.extras.shared

    @property
    def has_binding_conditions(self) -> bool:
        """Return True if the device has binding conditions (KEP-5007)."""
        return bool(self.spec.extras.binding_conditions or self.spec.extras.binding_failures)


@dataclass(frozen=True, eq=False)
class Pool:
    """The newest generation of a pool: the devices and counters of all its slices."""

    id: PoolId
    devices: tuple[DeviceInfo, ...]
    counters: Mapping[CounterId, int]
    """Nano-units of the shared counters, before any device consumes them."""
    complete: bool
    fault: str = ""
    """Why no device of the pool may be allocated; empty for a valid pool."""

    @cached_property
    def by_id(self) -> Mapping[DeviceId, DeviceInfo]:
        """Devices by id; the first wins if a driver publishes an id twice."""
        return {device.id: device for device in reversed(self.devices)}

    @cached_property
    def has_binding_conditions(self) -> bool:
        """Return True if a device has binding conditions. Such pools are tried last."""
        return any(device.has_binding_conditions for device in self.devices)

    @cached_property
    def consumers(self) -> tuple[DeviceInfo, ...]:
        return tuple(device for device in self.devices if device.consumes)


class NodePool(msgspec.Struct, frozen=True, eq=False):
    """The devices of a pool that one node reaches."""

    pool: Pool
    devices: tuple[DeviceInfo, ...]


class Pick(NamedTuple):
    """A device chosen for a request (`r`, or `r/sub` of an alternative)."""

    request: str
    device: DeviceInfo
    admin: bool
    tolerations: tuple[Toleration, ...]
    share: Mapping[str, Quantity] | None = None
    """Capacity that a share of the device consumes; None = the device as a whole."""


class AllocatedState(Protocol):
    """Devices that are allocated or reserved. Admin access allocates nothing."""

    def __contains__(self, device: object) -> bool:
        """Return True for a device that is allocated as a whole or in shares."""

    def consumed(self, device: DeviceId) -> Amounts | None:
        """Return what shares of the device consume; None if it is allocated as a whole."""


class Selectors(Protocol):
    """An engine for CEL selectors."""

    def matches(self, expression: str, driver: str, device: Device) -> bool:
        """Raises SelectorFault."""


class AllocationFault(NodeplaneError, http=422, grpc="FAILED_PRECONDITION"):
    """Raised when a pod's claims cannot be allocated on any node.

    Examples: a missing class, a selector that fails, a pool that is being updated while a request asks for all devices.
    The attempt ends and is repeated later.
    """


class AllocationEnded(AllocationFault):
    """Raised while a selector is in quarantine because its evaluation was ended. A later attempt may succeed."""


class NodeFault(NodeplaneError, http=422, grpc="FAILED_PRECONDITION"):
    """Raised when a pool of this node is invalid and the claims find no devices without it. Other nodes may fit."""


class SelectorFault(NodeplaneError, http=422, grpc="FAILED_PRECONDITION"):
    """Raised by a selector engine when an expression does not compile, or fails for a device."""


class SelectorEnded(SelectorFault):
    """Raised by a selector engine for an expression that ran too long, grew too large or crashed its process."""


class TimedOut(NodeplaneError, http=504, grpc="DEADLINE_EXCEEDED"):
    """Raised when a search runs out of steps or time."""
