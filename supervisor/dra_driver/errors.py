"""What can go wrong in the example driver."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class KubeconfigUnusable(NodeplaneError):
    """Raised when the kubeconfig cannot be read or names no client certificate."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class ClaimRefused(NodeplaneError):
    """Raised when a claim cannot be prepared: it is not allocated, another one bears its name, or not our device."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"
