"""Errors of the bus. An RPC fails with a BusError: a gRPC code name, one line for users, and details for programs."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class BusError(NodeplaneError):
    """Raised by a call that the handler rejected or that could not be delivered; handlers raise it to reject a call."""

    def __init__(self, code: str, message: str, details: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details or {}

    def __str__(self) -> str:
        return self.message


class _Coded(BusError):
    """A BusError whose code is that of its class."""

    def __init__(self, message: str, details: dict[str, str] | None = None) -> None:
        super().__init__(self.grpc, message, details)


class Cancelled(_Coded):
    """Raised when the callee gave the call up, e.g. because it stops."""

    http: ClassVar[int] = 499
    grpc: ClassVar[str] = "CANCELLED"


class Unknown(_Coded):
    """Raised when the callee's own callee failed without a code."""

    grpc: ClassVar[str] = "UNKNOWN"


class InvalidArgument(_Coded):
    """Raised when the request's body does not decode, or the handler rejects its content."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class DeadlineExceeded(_Coded):
    """Raised when the callee runs but did not answer in time."""

    http: ClassVar[int] = 504
    grpc: ClassVar[str] = "DEADLINE_EXCEEDED"


class NotFound(_Coded):
    """Raised when what the request names does not exist."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"


class AlreadyExists(_Coded):
    """Raised when what the request would make exists."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ALREADY_EXISTS"


class PermissionDenied(_Coded):
    """Raised when a service behind the callee rejects the callee's identity."""

    http: ClassVar[int] = 403
    grpc: ClassVar[str] = "PERMISSION_DENIED"


class ResourceExhausted(_Coded):
    """Raised when too many calls are open, here or at the callee, or a quota is used up."""

    http: ClassVar[int] = 429
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class FailedPrecondition(_Coded):
    """Raised when the callee is not in a state that allows the request; trying again at once does not help."""

    http: ClassVar[int] = 412
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class Aborted(_Coded):
    """Raised when the request lost against another one; it may be tried again from its start."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ABORTED"


class OutOfRange(_Coded):
    """Raised when a position lies outside of the retained range."""

    http: ClassVar[int] = 410
    grpc: ClassVar[str] = "OUT_OF_RANGE"


class Unimplemented(_Coded):
    """Raised when the callee serves no such method."""

    http: ClassVar[int] = 501
    grpc: ClassVar[str] = "UNIMPLEMENTED"


class Internal(_Coded):
    """Raised when the handler broke on an exception it does not know, or its reply does not decode."""

    grpc: ClassVar[str] = "INTERNAL"


class Unavailable(_Coded):
    """Raised when the callee is not running, or died during a call that must not be repeated."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class DataLoss(_Coded):
    """Raised when stored data is damaged beyond repair."""

    grpc: ClassVar[str] = "DATA_LOSS"


class Unauthenticated(_Coded):
    """Raised when the callee's callee does not accept the credentials."""

    http: ClassVar[int] = 401
    grpc: ClassVar[str] = "UNAUTHENTICATED"


class NameTaken(AlreadyExists):
    """Raised by Bus.start when another live process holds the lock of this name."""


class BusNotStarted(FailedPrecondition):
    """Raised when a Bus is used before start() or after close(), or a client-only Bus is asked to own or serve."""


class FrameInvalid(InvalidArgument):
    """Raised for a body that does not decode into its type; the caller of a method gets it as INVALID_ARGUMENT."""


_CODES: dict[str, type[_Coded]] = {kind.grpc: kind for kind in _Coded.__subclasses__()}


def error_for(code: str, message: str, details: dict[str, str] | None = None) -> BusError:
    """The subclass whose code is `code`; a plain BusError for a code we have no class for."""
    kind = _CODES.get(code)
    return kind(message, details) if kind else BusError(code, message, details)


def failure_of(error: BaseException) -> BusError:
    """Return the error that a handler's exception becomes on the wire."""
    if isinstance(error, BusError):
        return error
    if isinstance(error, NodeplaneError):
        details = getattr(error, "details", None)
        return error_for(error.grpc, str(error), details if isinstance(details, dict) else None)
    return Internal(f"{type(error).__name__}: {error}")
