"""Why a node cannot join; the text says how to mend it."""

from typing import ClassVar

from supervisor.errors import SupervisorError, Usage


class PassUnusable(Usage):
    """Raised when a file is no node's pass: not to be read, another user's, damaged, or ended."""


class JoinRefused(SupervisorError):
    """Raised when the API answered, and this node must not start: wrong plane, wrong names, wrong identity."""

    http: ClassVar[int] = 403
    grpc: ClassVar[str] = "PERMISSION_DENIED"


class NameInUse(JoinRefused):
    """Raised when another node of this name lives."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"
