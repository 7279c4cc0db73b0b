"""Errors of the API, one class per kind of Status. Clients match on their texts."""

from typing import ClassVar

from actors.apiserver.api.objects import Obj
from protocols.budget import BudgetSpent, DeadlinePassed
from protocols.errors import NodeplaneError
from protocols.etcd import errors as etcd
from protocols.kube.errors import KubeError, PatchImpossible
from protocols.kube.status import StatusError

ALWAYS_DETAILED = (404, 405, 422)
"""kubectl looks into the details of these without asking whether there are any."""


class ApiError(StatusError):
    """Base of all: a StatusError with a class, so that code and type checker can tell them apart."""

    http: ClassVar[int] = 500
    grpc: ClassVar[str] = "INTERNAL"
    why: ClassVar[str] = "InternalError"
    """The `reason` of its Status."""

    def __init__(self, message: str, details: Obj | None = None, retry_after: int = 0, resume: str = "") -> None:
        told = {**(details or {}), "retryAfterSeconds": retry_after}
        told = {key: value for key, value in told.items() if value}
        status: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": resume} if resume else {},
            "status": "Failure",
            "message": message,
            "reason": self.why,
            **({"details": told} if told or self.http in ALWAYS_DETAILED else {}),
            "code": self.http,
        }
        super().__init__(status)


class BadRequest(ApiError):
    """Raised when a query, selector, token or body cannot be understood."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"
    why: ClassVar[str] = "BadRequest"


class Unauthorized(ApiError):
    """Raised when a request names no known user."""

    http: ClassVar[int] = 401
    grpc: ClassVar[str] = "UNAUTHENTICATED"
    why: ClassVar[str] = "Unauthorized"

    def __init__(self) -> None:
        super().__init__("Unauthorized")


class Forbidden(ApiError):
    """Raised when no rule lets the user do this, or the namespace does not let objects in."""

    http: ClassVar[int] = 403
    grpc: ClassVar[str] = "PERMISSION_DENIED"
    why: ClassVar[str] = "Forbidden"


class NotFound(ApiError):
    """Raised when the object, or the path, does not exist."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"
    why: ClassVar[str] = "NotFound"


class MethodNotAllowed(ApiError):
    """Raised when the path exists and does not know the verb."""

    http: ClassVar[int] = 405
    grpc: ClassVar[str] = "UNIMPLEMENTED"
    why: ClassVar[str] = "MethodNotAllowed"


class NotAcceptable(ApiError):
    """Raised when the client accepts none of the forms we can write."""

    http: ClassVar[int] = 406
    grpc: ClassVar[str] = "INVALID_ARGUMENT"
    why: ClassVar[str] = "NotAcceptable"

    def __init__(self, offered: str) -> None:
        super().__init__(f"only the following media types are accepted: {offered}")


class AlreadyExists(ApiError):
    """Raised by create when the name is taken."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ALREADY_EXISTS"
    why: ClassVar[str] = "AlreadyExists"


class Conflict(ApiError):
    """Raised when a precondition or the resourceVersion does not hold."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ABORTED"
    why: ClassVar[str] = "Conflict"


class Expired(ApiError):
    """Raised when the revision asked for is older than what is kept."""

    http: ClassVar[int] = 410
    grpc: ClassVar[str] = "OUT_OF_RANGE"
    why: ClassVar[str] = "Expired"


class BodyTooLarge(ApiError):
    """Raised when a request body, or a JSON patch, passes its limit."""

    http: ClassVar[int] = 413
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"
    why: ClassVar[str] = "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    """Raised when a body comes in a form we cannot read."""

    http: ClassVar[int] = 415
    grpc: ClassVar[str] = "INVALID_ARGUMENT"
    why: ClassVar[str] = "UnsupportedMediaType"

    def __init__(self, offered: str) -> None:
        super().__init__(f"the body of the request was in an unknown format - accepted media types include: {offered}")


class Invalid(ApiError):
    """Raised when an object, or an option, breaks a rule; its causes name each field."""

    http: ClassVar[int] = 422
    grpc: ClassVar[str] = "INVALID_ARGUMENT"
    why: ClassVar[str] = "Invalid"


class TooManyRequests(ApiError):
    """Raised while a replica has not synced yet: come back, keep your place."""

    http: ClassVar[int] = 429
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"
    why: ClassVar[str] = "TooManyRequests"


class InternalError(ApiError):
    """Raised when a fault is ours; the log has more."""

    def __init__(self, message: str) -> None:
        super().__init__(f"Internal error occurred: {message}", {"causes": [{"message": message}]})


class CorruptObject(InternalError):
    """Raised when what the store holds under a key is no object. Mended by writing it again in the store, or by
    deleting it with `ignoreStoreReadErrorWithClusterBreakingPotential`."""

    def __init__(self, key: str, why: str) -> None:
        code = "StorageError: corrupt object, Code: 7"
        super().__init__(f"{code}, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}")


class StoreReadError(ApiError):
    """Raised when a collection cannot be deleted whole, since some of it cannot be read."""

    why: ClassVar[str] = "StorageReadError"


class ServiceUnavailable(ApiError):
    """Raised when the store does not answer, or this process is leaving."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"
    why: ClassVar[str] = "ServiceUnavailable"

    def __init__(self, message: str) -> None:
        super().__init__(message, retry_after=1)


class StoreFull(ApiError):
    """Raised when the store has no space left: deletions and reads go on. It has no reason, as upstream's has none."""

    http: ClassVar[int] = 500
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        del self.status["reason"]


class TooLargeVersion(ApiError):
    """Raised when a read asks for a revision the replica does not reach in time."""

    http: ClassVar[int] = 504
    grpc: ClassVar[str] = "DEADLINE_EXCEEDED"
    why: ClassVar[str] = "Timeout"

    def __init__(self, wanted: int, current: int) -> None:
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        message = f"Timeout: Too large resource version: {wanted}, current: {current}"
        super().__init__(message, {"causes": [cause]}, retry_after=1)


class RequestTimeout(ApiError):
    """Raised when a request passes the server's own deadline."""

    http: ClassVar[int] = 504
    grpc: ClassVar[str] = "DEADLINE_EXCEEDED"
    why: ClassVar[str] = "Timeout"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Timeout: request did not complete within {seconds:g}s", retry_after=1)


class WorkTimeout(ApiError):
    """Raised when what a request asks for takes longer than the server works on it."""

    http: ClassVar[int] = 504
    grpc: ClassVar[str] = "DEADLINE_EXCEEDED"
    why: ClassVar[str] = "Timeout"


REFUSALS: dict[int, type[ApiError]] = {413: BodyTooLarge, 422: Invalid}
"""Of bodies, patches and selectors by their HTTP code; all others are bad requests."""
REJECTED = "the server rejected our request due to an error in our request"
"""What clients know of a patch that cannot be applied; upstream says no more than that."""


def as_api_error(error: NodeplaneError) -> ApiError:
    """What a client is told; a store that is away is a reason to come back, not to give up."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, BudgetSpent):
        return BodyTooLarge(str(error))
    if isinstance(error, DeadlinePassed):
        return WorkTimeout(str(error))
    if isinstance(error, KubeError):
        text = f"{REJECTED}: {error}" if isinstance(error, PatchImpossible) else str(error)
        return REFUSALS.get(error.http, BadRequest)(text)
    if isinstance(error, etcd.TooManyRequests):
        return TooManyRequests(str(error), retry_after=1)
    if isinstance(error, etcd.NoSpace):
        return StoreFull(str(error))
    if isinstance(error, etcd.TooLarge):
        return BodyTooLarge(str(error))
    if isinstance(error, etcd.Compacted):
        return Expired(str(error))
    if isinstance(error, etcd.Unavailable):
        return ServiceUnavailable(f"the store does not answer: {error}")
    return InternalError(str(error))
