"""Errors of pods and devices that a real node and simulated ones share. Messages that pods show are kubelet's."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class PodInvalid(NodeplaneError, http=422, grpc="INVALID_ARGUMENT"):
    """Raised when an API object cannot be read as a pod; that pod is logged and ignored."""


class ClaimsNotReady(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised when a pod's ResourceClaims cannot be prepared yet; the pod stays Pending and is retried."""


class AdmissionRejected(NodeplaneError, http=409, grpc="FAILED_PRECONDITION"):
    """Raised when a pod cannot have its devices. Final for the pod; nothing of it stays allocated."""

    details: ClassVar[dict[str, str]] = {"reason": "UnexpectedAdmissionError"}


class NotEnoughResource(NodeplaneError, http=409, grpc="FAILED_PRECONDITION"):
    """Raised when a pod requests a resource whose plugin left so long ago that the node has none of it any more."""

    def __init__(self, resource: str, requested: int) -> None:
        super().__init__(f"Node didn't have enough resource: {resource}, requested: {requested}, used: 0, capacity: 0")
        self.details = {"reason": f"OutOf{resource}"}


class DevicesInUse(NodeplaneError):
    """Raised when a reservation names a device of another pod: a bug here, never a client's fault."""


class UnknownDevice(NodeplaneError, http=404, grpc="NOT_FOUND"):
    """Raised when an override names a device that was never reported."""


class InvalidHealth(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when an override names a health that does not exist."""


class HollowInvalid(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when an annotation of a simulated container has a value that it cannot have."""


class RoomTaken(NodeplaneError, http=409, grpc="FAILED_PRECONDITION"):
    """Raised while pods that are preempted by a critical pod have not ended; the critical one is tried again."""
