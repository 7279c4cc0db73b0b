"""Errors of scheduling."""

from protocols.errors import NodeplaneError


class ObjectUnreadable(NodeplaneError, http=422, grpc="INVALID_ARGUMENT"):
    """Raised when a pod or node has a field of the wrong shape; it is ignored."""


class ClaimsNotReady(NodeplaneError, http=409, grpc="FAILED_PRECONDITION"):
    """Raised before nodes are filtered, when no node can fit now. `topics` name what may change that."""

    def __init__(self, message: str, topics: frozenset[str], expected: bool = False) -> None:
        super().__init__(message)
        self.topics = topics
        self.expected = expected
        """True for a usual and brief condition that is not reported to users."""


class VolumesNotReady(ClaimsNotReady):
    """Raised when a PersistentVolumeClaim keeps a pod from every node."""


class DeviceConflict(NodeplaneError, http=409, grpc="ABORTED"):
    """Raised when an earlier claim holds, or may hold, a device of an allocated claim.

    Two schedulers were at work; the pod must not run with it.
    """


class BindingFailed(NodeplaneError, http=409, grpc="ABORTED"):
    """Raised when devices of a claim were not ready for a binding: a driver reported a failure, or time was up."""


class WaitPreempted(NodeplaneError, http=409, grpc="ABORTED"):
    """Raised when a pod waits for its devices and a pod of higher priority takes its place."""


class ClaimChanged(NodeplaneError, http=409, grpc="ABORTED"):
    """Raised when a claim was deleted or allocated by somebody else since the decision."""
