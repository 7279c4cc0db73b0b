"""The scheduler's own faults."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class ObjectUnreadable(NodeplaneError):
    """Raised when a pod or node has a field of the wrong shape: it is left alone, everything else goes on."""

    http: ClassVar[int] = 422
    grpc: ClassVar[str] = "INVALID_ARGUMENT"
