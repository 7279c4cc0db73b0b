"""Why the node refuses to open a stream. `http` is the code of the answer, `reason` the one of its Status."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class StreamingRefused(NodeplaneError):
    """Base of all of them."""

    reason: ClassVar[str] = "InternalError"
    retry_s: ClassVar[int] = 0
    """Seconds after which to come back; 0 = better not."""


class CallerUnknown(StreamingRefused):
    """Raised when a request comes without a client certificate of this plane."""

    http: ClassVar[int] = 401
    grpc: ClassVar[str] = "UNAUTHENTICATED"
    reason: ClassVar[str] = "Unauthorized"


class CallerForbidden(StreamingRefused):
    """Raised when somebody other than the API server calls."""

    http: ClassVar[int] = 403
    grpc: ClassVar[str] = "PERMISSION_DENIED"
    reason: ClassVar[str] = "Forbidden"


class RequestInvalid(StreamingRefused):
    """Raised when a query cannot be understood, or the container has not come as far as the request needs it."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"
    reason: ClassVar[str] = "BadRequest"


class StreamTargetMissing(StreamingRefused):
    """Raised when this node has no such pod or container, or no such path."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"
    reason: ClassVar[str] = "NotFound"


class NotHeardYet(StreamingRefused):
    """Raised in the first moments of a life of podworker; clients come back by themselves."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"
    reason: ClassVar[str] = "ServiceUnavailable"
    retry_s: ClassVar[int] = 1


class RuntimeAway(StreamingRefused):
    """Raised when the container runtime cannot be asked, or does not open the stream."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"
    reason: ClassVar[str] = "ServiceUnavailable"
