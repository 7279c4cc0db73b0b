"""What can go wrong while the runtime is listed."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class RelistFailed(NodeplaneError):
    """Raised when the runtime could not be listed or a pod not inspected; the next relist tries again."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class InspectionFailed(RelistFailed):
    """Raised when the runtime answered, but nothing that can be used, when asked of one pod; of others it may."""


class NotNewer(NodeplaneError):
    """Raised by GetNewerThan at its deadline: nothing later than the asked time became known."""

    http: ClassVar[int] = 504
    grpc: ClassVar[str] = "DEADLINE_EXCEEDED"
