"""Errors of the bus. An RPC fails with a BusError: a gRPC code name, one line for users, and details for programs."""

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


class Cancelled(_Coded, http=499, grpc="CANCELLED"):
    """Raised when the callee gave the call up, e.g. because it stops."""


class Unknown(_Coded, grpc="UNKNOWN"):
    """Raised when the callee's own callee failed without a code."""


class InvalidArgument(_Coded, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when the request's body does not decode, or the handler rejects its content."""


class DeadlineExceeded(_Coded, http=504, grpc="DEADLINE_EXCEEDED"):
    """Raised when the callee runs but did not answer in time."""


class NotFound(_Coded, http=404, grpc="NOT_FOUND"):
    """Raised when what the request names does not exist."""


class AlreadyExists(_Coded, http=409, grpc="ALREADY_EXISTS"):
    """Raised when what the request would make exists."""


class PermissionDenied(_Coded, http=403, grpc="PERMISSION_DENIED"):
    """Raised when a service behind the callee rejects the callee's identity."""


class ResourceExhausted(_Coded, http=429, grpc="RESOURCE_EXHAUSTED"):
    """Raised when too many calls are open, here or at the callee, or a quota is used up."""


class FailedPrecondition(_Coded, http=412, grpc="FAILED_PRECONDITION"):
    """Raised when the callee is not in a state that allows the request; trying again at once does not help."""


class Aborted(_Coded, http=409, grpc="ABORTED"):
    """Raised when the request lost against another one; it may be tried again from its start."""


class OutOfRange(_Coded, http=410, grpc="OUT_OF_RANGE"):
    """Raised when a position lies outside of the retained range."""


class Unimplemented(_Coded, http=501, grpc="UNIMPLEMENTED"):
    """Raised when the callee serves no such method."""


class Internal(_Coded, grpc="INTERNAL"):
    """Raised when the handler broke on an exception it does not know, or its reply does not decode."""


class Unavailable(_Coded, http=503, grpc="UNAVAILABLE"):
    """Raised when the callee is not running, or died during a call that must not be repeated."""


class DataLoss(_Coded, grpc="DATA_LOSS"):
    """Raised when stored data is damaged beyond repair."""


class Unauthenticated(_Coded, http=401, grpc="UNAUTHENTICATED"):
    """Raised when the callee's callee does not accept the credentials."""


class NameTaken(AlreadyExists):
    """Raised by Bus.start when another live process holds the lock of this name."""


class BusNotStarted(FailedPrecondition):
    """Raised when a Bus is used before start() or after close(), or a client-only Bus is asked to own or serve."""


class FrameInvalid(InvalidArgument):
    """Raised for a body that does not decode into its type; the caller of a method gets it as INVALID_ARGUMENT."""


_CODES: dict[str, type[_Coded]] = {kind.grpc: kind for kind in _Coded.__subclasses__()}


def error_for(code: str, message: str, details: dict[str, str] | None = None) -> BusError:
    """Return an error of the subclass for `code`; a plain BusError for a code without a class."""
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
