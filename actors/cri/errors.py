"""What can go wrong between this process and the runtime."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class OperationUnknown(NodeplaneError):
    """Raised when a peer asks for a method that CRI v1 does not have or that this actor does not pass on."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class RuntimeRefused(NodeplaneError):
    """Raised when Version or Status of the runtime cannot be used: names missing, or RuntimeReady false."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class FaultUnknown(NodeplaneError):
    """Raised when a fault is asked for that there is not."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class ListTooLong(NodeplaneError):
    """Raised when a list that the runtime sends in pieces exceeds what one answer may carry."""

    http: ClassVar[int] = 507
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"
