"""What can stop a plugin."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class HealthFileInvalid(NodeplaneError):
    """Raised when a line of the health file is not `DEVICE HEALTH`; the last good state stays."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class WatchFailed(NodeplaneError):
    """Raised when the kernel gives no inotify watch."""
