"""What can go wrong around the supervisor; the text is what a person reads, with the mend."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class SupervisorError(NodeplaneError):
    """Base class. `exit_code` is what the command line ends with."""

    exit_code: ClassVar[int] = 1


class Usage(SupervisorError):
    """Raised for flags, names and paths that cannot be used."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"
    exit_code: ClassVar[int] = 2


class AlreadyRunning(SupervisorError):
    """Raised when another supervisor holds the root or the group."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class PortTaken(SupervisorError):
    """Raised before anything is started when the API's port is in use by somebody else."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class RootUnusable(SupervisorError):
    """Raised when ROOT cannot be made or written: permissions, a full disk, a file in its place."""


class DirectoryNotTrusted(RootUnusable):
    """Raised when ROOT, or a directory of keys and state below it, is somebody else's to write or to replace."""

    http: ClassVar[int] = 403
    grpc: ClassVar[str] = "PERMISSION_DENIED"


class PkiFailed(SupervisorError):
    """Raised when certificates cannot be made or written."""


class ForkserverLost(SupervisorError):
    """Raised when the forkserver cannot be started at all."""


class PlaneFailed(SupervisorError):
    """Raised when a critical actor broke its restart budget: the supervisor ends and says why."""


class NoSuchActor(SupervisorError):
    """Raised when an order names an instance this supervisor does not run."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"


class NotRunning(SupervisorError):
    """Raised by commands that need a plane when none answers below the root."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class ForeignPackage(SupervisorError):
    """Raised when `supervisor`, `protocols` or `actors` come from another distribution."""
