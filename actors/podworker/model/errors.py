"""Errors raised while a pod is processed."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class PodInvalid(NodeplaneError):
    """Raised when an API object cannot be read as a pod; that pod is logged and ignored."""

    http: ClassVar[int] = 422
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class ContainerConfigInvalid(NodeplaneError):
    """Raised when a container's environment or mounts cannot be built; shown as CreateContainerConfigError."""

    http: ClassVar[int] = 422
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class ImageMissing(NodeplaneError):
    """Raised when an image is absent and may not or could not be pulled; `reason` is the container's waiting reason."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PodStatusUnknown(NodeplaneError):
    """Raised when pleg could not inspect a pod: nothing is decided about it until it can."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class SyncFailed(NodeplaneError):
    """Raised at the end of a sync in which some steps failed; the pod is tried again."""

    http: ClassVar[int] = 500
    grpc: ClassVar[str] = "INTERNAL"


class RoomTaken(NodeplaneError):
    """Raised while pods that are preempted by a critical pod have not ended; the critical one is tried again."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class ReferenceUnreadable(ContainerConfigInvalid):
    """Raised when a referenced ConfigMap, Secret or token cannot be read now, though it may exist."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class ManifestInvalid(NodeplaneError):
    """Raised when a file of the manifest directory is no valid pod; the file is reported and ignored."""

    http: ClassVar[int] = 422
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class MirrorMissing(NodeplaneError):
    """Raised when the API has no mirror of a static pod yet; its status is sent once there is one."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class ClaimsNotReady(NodeplaneError):
    """Raised when a pod's ResourceClaims cannot be prepared yet; the pod stays Pending and is retried."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class HookFailed(NodeplaneError):
    """Raised when a lifecycle hook fails. An event says so, without the message, which may hold secrets."""

    http: ClassVar[int] = 500
    grpc: ClassVar[str] = "INTERNAL"


class HookTimedOut(HookFailed):
    """Raised when a lifecycle hook still runs at its deadline."""


class RuntimeClassUnknown(NodeplaneError):
    """Raised when a pod's RuntimeClass does not exist; its sandbox waits for it."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"


class VolumeNotReady(NodeplaneError):
    """Raised when a volume of a pod cannot be set up yet; its containers wait with this message."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"
