"""Errors of the embedded runtime, each with the gRPC code a CRI client gets."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class RuntimeFault(NodeplaneError):
    """Base of all errors of the runtime."""


class NotFound(RuntimeFault):
    """Raised when no sandbox, container or image has the id, prefix or name."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"


class AmbiguousId(RuntimeFault):
    """Raised when an id is a prefix of several ids."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class InvalidRequest(RuntimeFault):
    """Raised when a request lacks a field, contradicts itself or does not decode."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class CdiUnusable(RuntimeFault):
    """Raised when no CDI file describes a requested device, or its edits are not supported."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "UNKNOWN"


class NameReserved(RuntimeFault):
    """Raised when a sandbox or container that was not removed has the name of a new one."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ALREADY_EXISTS"


class WrongState(RuntimeFault):
    """Raised when the state does not allow an operation, e.g. the start of a container that has run."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class StartFailed(RuntimeFault):
    """Raised when a container's program could not be executed; the container is then exited: 128, StartError."""

    grpc: ClassVar[str] = "UNKNOWN"


class HostPathAway(RuntimeFault):
    """Raised when the file system of a mounted host path does not answer; the container can be created later."""

    http: ClassVar[int] = 504
    grpc: ClassVar[str] = "DEADLINE_EXCEEDED"


class ExecFailed(RuntimeFault):
    """Raised when a command could not be executed in a container, or the container ended meanwhile."""

    grpc: ClassVar[str] = "UNKNOWN"


class ExecTimedOut(RuntimeFault):
    """Raised when a command ran longer than its timeout; its process group has been killed."""

    http: ClassVar[int] = 504
    grpc: ClassVar[str] = "DEADLINE_EXCEEDED"


class StopTimedOut(RuntimeFault):
    """Raised when a container did not end although its processes were killed."""

    http: ClassVar[int] = 504
    grpc: ClassVar[str] = "DEADLINE_EXCEEDED"


class StateNotWritten(RuntimeFault):
    """Raised when the state directory or a log cannot be written; nothing has changed."""

    http: ClassVar[int] = 507
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class LauncherGone(RuntimeFault):
    """Raised when the launcher process cannot be started or does not answer; callers may retry."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class TooManyTickets(RuntimeFault):
    """Raised when too many requested streams have not been opened yet."""

    http: ClassVar[int] = 429
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class ShuttingDown(RuntimeFault):
    """Raised for a start after `nodeplane down` began to stop the containers."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class SubscriberTooSlow(RuntimeFault):
    """Ends an event stream whose client read too slowly; it has lost events and must list again."""

    http: ClassVar[int] = 429
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class NotSupported(RuntimeFault):
    """Raised for a CRI method that this runtime does not implement."""

    http: ClassVar[int] = 501
    grpc: ClassVar[str] = "UNIMPLEMENTED"


class ImageUnusable(RuntimeFault):
    """Raised when an import is no image, or not for this machine; nothing has changed."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class ImageTooLarge(ImageUnusable):
    """Raised when an import exceeds a bound; nothing of it is left."""

    http: ClassVar[int] = 413
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class ImageInUse(RuntimeFault):
    """Raised for the removal of an image that a container uses."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class SocketTaken(RuntimeFault):
    """Raised at start when the path of the runtime's socket cannot be used."""
