"""Errors raised while a pod is processed."""

from protocols.errors import NodeplaneError


class ContainerConfigInvalid(NodeplaneError, http=422, grpc="INVALID_ARGUMENT"):
    """Raised when a container's environment or mounts cannot be built; shown as CreateContainerConfigError."""


class ImageMissing(NodeplaneError, http=404, grpc="NOT_FOUND"):
    """Raised when an image is absent and may not or could not be pulled; `reason` is the container's waiting reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PodStatusUnknown(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised when pleg could not inspect a pod: nothing is decided about it until it can."""


class SyncFailed(NodeplaneError, http=500, grpc="INTERNAL"):
    """Raised at the end of a sync in which some steps failed; the pod is tried again."""


class ReferenceUnreadable(ContainerConfigInvalid, http=503, grpc="UNAVAILABLE"):
    """Raised when a referenced ConfigMap, Secret or token cannot be read now, though it may exist."""


class ManifestInvalid(NodeplaneError, http=422, grpc="INVALID_ARGUMENT"):
    """Raised when a file of the manifest directory is no valid pod; the file is reported and ignored."""


class MirrorMissing(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised when the API has no mirror of a static pod yet; its status is sent once there is one."""


class HookFailed(NodeplaneError, http=500, grpc="INTERNAL"):
    """Raised when a lifecycle hook fails. An event says so, without the message, which may hold secrets."""


class HookTimedOut(HookFailed):
    """Raised when a lifecycle hook still runs at its deadline."""


class RuntimeClassUnknown(NodeplaneError, http=404, grpc="NOT_FOUND"):
    """Raised when a pod's RuntimeClass does not exist; its sandbox waits for it."""


class HostnameTooLong(NodeplaneError, http=422, grpc="INVALID_ARGUMENT"):
    """Raised when Linux has no room for the name of a pod with setHostnameAsFQDN; its sandbox is not created."""


class VolumeNotReady(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised when a volume of a pod cannot be set up yet; its containers wait with this message."""
