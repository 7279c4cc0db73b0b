"""Errors of scheduling."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class ObjectUnreadable(NodeplaneError):
    """Raised when a pod or node has a field of the wrong shape; it is ignored."""

    http: ClassVar[int] = 422
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class ClaimsNotReady(NodeplaneError):
    """Raised before nodes are filtered, when no node can fit now. `topics` name what may change that."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"

    def __init__(self, message: str, topics: frozenset[str], expected: bool = False) -> None:
        super().__init__(message)
        self.topics = topics
        self.expected = expected
        """True for a usual and brief condition that is not reported to users."""


class VolumesNotReady(ClaimsNotReady):
    """Raised when a PersistentVolumeClaim keeps a pod from every node."""


class DeviceConflict(NodeplaneError):
    """Raised when an earlier claim holds, or may hold, a device of an allocated claim.

    Two schedulers were at work; the pod must not run with it.
    """

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ABORTED"


class BindingFailed(NodeplaneError):
    """Raised when devices of a claim were not ready for a binding: a driver reported a failure, or time was up."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ABORTED"


class WaitPreempted(NodeplaneError):
    """Raised when a pod waits for its devices and a pod of higher priority takes its place."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ABORTED"


class ClaimChanged(NodeplaneError):
    """Raised when a claim was deleted or allocated by somebody else since the decision."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ABORTED"
