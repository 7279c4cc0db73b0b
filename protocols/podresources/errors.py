"""Ends of a watch that do not mend themselves."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class WatchUnsupported(NodeplaneError):
    """Raised when the server has no watch: kubelet itself, or a gate that is off."""

    http: ClassVar[int] = 501
    grpc: ClassVar[str] = "UNIMPLEMENTED"


class WatchRefused(NodeplaneError):
    """Raised when the server refuses for a reason that stays."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "FAILED_PRECONDITION"
