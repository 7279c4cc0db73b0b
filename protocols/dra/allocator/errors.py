"""Faults of an allocation. That nothing fits is no fault but an answer."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class AllocationFault(NodeplaneError):
    """Raised when a pod's claims cannot be allocated on any node: a missing class, a selector that fails,
    a pool that is being updated while all its devices are asked for. The attempt ends; it is tried again later."""

    http: ClassVar[int] = 422
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class NodeFault(NodeplaneError):
    """Raised when this node cannot serve the claims because what is published for it is invalid; others may."""

    http: ClassVar[int] = 422
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class SelectorFault(NodeplaneError):
    """Raised by a selector engine when an expression does not compile, or fails for a device."""

    http: ClassVar[int] = 422
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class TimedOut(NodeplaneError):
    """Raised when a search ran out of steps or time before it knew whether there is a solution."""

    http: ClassVar[int] = 504
    grpc: ClassVar[str] = "DEADLINE_EXCEEDED"
