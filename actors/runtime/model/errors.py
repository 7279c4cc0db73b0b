"""Faults of the embedded runtime, each with the gRPC code a CRI client gets."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class RuntimeFault(NodeplaneError):
    """Base of all of them."""


class NotFound(RuntimeFault):
    """Raised when no sandbox or container has the id, or its prefix."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"


class AmbiguousId(RuntimeFault):
    """Raised when an id is a prefix of more than one."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class InvalidRequest(RuntimeFault):
    """Raised when a request lacks a field, contradicts itself or does not decode."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class CdiUnusable(RuntimeFault):
    """Raised when a container names CDI devices that no file describes, or that ask for what is not done here."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "UNKNOWN"


class NameReserved(RuntimeFault):
    """Raised when the name of a new sandbox or container belongs to one that was not removed."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ALREADY_EXISTS"


class WrongState(RuntimeFault):
    """Raised when an operation does not fit the state, e.g. the start of a container that has run."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class StartFailed(RuntimeFault):
    """Raised when a container's program could not be run; the container is then exited with 128 and StartError."""

    grpc: ClassVar[str] = "UNKNOWN"


class ExecFailed(RuntimeFault):
    """Raised when a command could not be run in a container, or the container ended under it."""

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
    """Raised when the launcher process cannot be started or does not answer; the call may be repeated."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class TooManyTickets(RuntimeFault):
    """Raised when streams are asked for faster than they are opened."""

    http: ClassVar[int] = 429
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class GoingDown(RuntimeFault):
    """Raised for a start after the plane was told to stop its containers."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class SubscriberTooSlow(RuntimeFault):
    """Raised into an event stream whose client did not read fast enough; it has lost events and must list again."""

    http: ClassVar[int] = 429
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class NotSupported(RuntimeFault):
    """Raised for a method of the interface that this runtime does not have."""

    http: ClassVar[int] = 501
    grpc: ClassVar[str] = "UNIMPLEMENTED"


class ImageUnusable(RuntimeFault):
    """Raised when what is to be imported is no image, or not for this machine; nothing has changed."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class ImageTooLarge(ImageUnusable):
    """Raised when an image to be imported exceeds a bound (a bomb, or a mistake); nothing of it is left."""

    http: ClassVar[int] = 413
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class ImageInUse(RuntimeFault):
    """Raised for the removal of an image that a container is made of."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class SocketTaken(RuntimeFault):
    """Raised at start when the path of the runtime's socket cannot be used."""
