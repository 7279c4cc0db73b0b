"""The allocator's vocabulary, on top of protocols.dra.types."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
"""Devices that a claim holds: as a whole (None), or shares that consume so much."""


class Node(NamedTuple):
    """The part of a node that decides which devices it reaches."""

    name: str
    labels: Mapping[str, str]


def reaches(reach: Reach, node: Node) -> bool:
    if reach.everywhere or (reach.node and reach.node == node.name):
        return True
    return reach.selector is not None and selects(reach.selector, node.name, node.labels)


@dataclass(eq=False)
class DeviceInfo:
    """A device of one generation of its pool.

    An unchanged device keeps its DeviceInfo when its slice changes, so that cached results stay valid.
    """

    id: DeviceId
    spec: Device
    """The device as its slice describes it, with patches applied."""
    reach: Reach
    consumes: Mapping[CounterId, int]
    """Nano-units taken of the pool's shared counters."""
    matched: dict[str, bool] = field(default_factory=dict)
    """Results of expressions; the code that fills it bounds it."""

    @property
    def shared(self) -> bool:
        """Return True if the device allows multiple allocations."""
        return self.spec.extras.shared

    @property
    def binding(self) -> bool:
        """Return True if it is prepared after its allocation, by binding conditions."""
        return bool(self.spec.extras.binding_conditions or self.spec.extras.binding_failures)


@dataclass(frozen=True, eq=False)
class Pool:
    """The newest generation of a pool, over all its slices."""

    id: PoolId
    devices: tuple[DeviceInfo, ...]
    counters: Mapping[CounterId, int]
    """Nano-units that all devices of the pool share."""
    complete: bool
    fault: str = ""
    """Why nothing of it may be used; empty when it is valid."""

    @cached_property
    def by_id(self) -> Mapping[DeviceId, DeviceInfo]:
        """Devices by id; the first wins if a driver publishes an id twice."""
        return {device.id: device for device in reversed(self.devices)}

    @cached_property
    def binding(self) -> bool:
        """Return True if a device has binding conditions: other pools are tried first."""
        return any(device.binding for device in self.devices)

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


class Usage(Protocol):
    """Devices that are allocated, or about to be; admin access is no use."""

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

    A missing class, a selector that fails, a pool that is being updated while all its devices are asked for. The
    attempt ends; it is tried again later.
    """


class AllocationEnded(AllocationFault):
    """Raised when a selector ended its evaluation, or is in quarantine for that: true for a while only."""


class NodeFault(NodeplaneError, http=422, grpc="FAILED_PRECONDITION"):
    """Raised when this node cannot serve the claims because what is published for it is invalid; others may."""


class SelectorFault(NodeplaneError, http=422, grpc="FAILED_PRECONDITION"):
    """Raised by a selector engine when an expression does not compile, or fails for a device."""


class SelectorEnded(SelectorFault):
    """Raised by a selector engine for an expression that overran, grew or crashed, until it is tried again."""


class TimedOut(NodeplaneError, http=504, grpc="DEADLINE_EXCEEDED"):
    """Raised when a search ran out of steps or time before it knew whether there is a solution."""
