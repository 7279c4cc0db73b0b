"""Errors that end a request, one class per kind of Status. Clients match on their texts."""

from collections.abc import Sequence
from typing import ClassVar

from protocols.errors import NodeplaneError
from protocols.etcd import errors as etcd
from protocols.kinds.check.budget import BudgetSpent, DeadlinePassed
from protocols.kinds.check.causes import MAX_CAUSES, MAX_SHOWN, Cause
from protocols.kube.errors import KubeError, PatchImpossible, StatusError
from protocols.kube.meta import Object

ALWAYS_DETAILED = (404, 405, 422)
"""Codes whose Status must have details: kubectl reads them without a check."""


class ApiError(StatusError):
    """Base class of all errors of the API."""

    http: ClassVar[int] = 500
    grpc: ClassVar[str] = "INTERNAL"
    why: ClassVar[str] = "InternalError"
    """The `reason` of its Status."""

    def __init_subclass__(cls, *, http: int | None = None, grpc: str | None = None, why: str = "") -> None:
        super().__init_subclass__(http=http, grpc=grpc)
        if why:
            cls.why = why

    def __init__(self, message: str, details: Object | None = None, retry_after: int = 0, resume: str = "") -> None:
        shown = {**(details or {}), "retryAfterSeconds": retry_after}
        shown = {key: value for key, value in shown.items() if value}
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": resume} if resume else {},
            "status": "Failure",
            "message": message,
            "reason": self.why,
            **({"details": shown} if shown or self.http in ALWAYS_DETAILED else {}),
            "code": self.http,
        }
        super().__init__(status)


class BadRequest(ApiError, http=400, grpc="INVALID_ARGUMENT", why="BadRequest"):
    """Raised when a query, selector, token or body cannot be understood."""


class Unauthorized(ApiError, http=401, grpc="UNAUTHENTICATED", why="Unauthorized"):
    """Raised when a request names no known user."""

    def __init__(self) -> None:
        super().__init__("Unauthorized")


class Forbidden(ApiError, http=403, grpc="PERMISSION_DENIED", why="Forbidden"):
    """Raised when no rule allows the request, or the namespace accepts no objects."""


class NotFound(ApiError, http=404, grpc="NOT_FOUND", why="NotFound"):
    """Raised when the object, or the path, does not exist."""


class MethodNotAllowed(ApiError, http=405, grpc="UNIMPLEMENTED", why="MethodNotAllowed"):
    """Raised when the path does not support the method."""


class NotAcceptable(ApiError, http=406, grpc="INVALID_ARGUMENT", why="NotAcceptable"):
    """Raised when the client accepts no media type that the server can write."""

    def __init__(self, offered: str) -> None:
        super().__init__(f"only the following media types are accepted: {offered}")


class NotThisView(ApiError, http=406, grpc="INVALID_ARGUMENT", why="NotAcceptable"):
    """Raised for the metadata of one object when a list is requested, and the reverse."""


class AlreadyExists(ApiError, http=409, grpc="ALREADY_EXISTS", why="AlreadyExists"):
    """Raised by create when the name is taken."""


class Conflict(ApiError, http=409, grpc="ABORTED", why="Conflict"):
    """Raised when a precondition or the resourceVersion does not hold."""


class Expired(ApiError, http=410, grpc="OUT_OF_RANGE", why="Expired"):
    """Raised when the requested revision is older than the retained history."""


class BodyTooLarge(ApiError, http=413, grpc="RESOURCE_EXHAUSTED", why="RequestEntityTooLarge"):
    """Raised when a request body, or a JSON patch, passes its limit."""


class UnsupportedMediaType(ApiError, http=415, grpc="INVALID_ARGUMENT", why="UnsupportedMediaType"):
    """Raised when the media type of a body is not supported."""

    def __init__(self, offered: str) -> None:
        super().__init__(f"the body of the request was in an unknown format - accepted media types include: {offered}")


class Invalid(ApiError, http=422, grpc="INVALID_ARGUMENT", why="Invalid"):
    """Raised when an object, or an option, breaks a rule; its causes name each field."""

    rejected: Object | None = None
    """The changed object: whoever may not write it learns that, and not what is wrong with it."""


def invalid_object(kind: str, group: str, name: str, causes: Sequence[Cause]) -> Invalid:
    """Return the 422 of `causes`. Clients expect the Kind, not the resource, in its details."""
    listed = causes[:MAX_CAUSES]
    texts = [f"{cause.field}: {cause.message}" for cause in listed]
    if len(causes) > len(listed):
        texts.append(f"... {len(causes) - len(listed)} more")
    body = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    subject, name = f"{kind}.{group}" if group else kind, name[:MAX_SHOWN]
    details = {
        "name": name,
        "group": group,
        "kind": kind,
        "causes": [{"reason": c.reason, "message": c.message, "field": c.field} for c in listed],
    }
    return Invalid(f'{subject} "{name}" is invalid: {body}', details)


def invalid_options(kind: str, *causes: Cause) -> Invalid:
    """Return the 422 of request options, such as ListOptions or PatchOptions."""
    return invalid_object(kind, "meta.k8s.io", "", causes)


class TooManyRequests(ApiError, http=429, grpc="RESOURCE_EXHAUSTED", why="TooManyRequests"):
    """Raised when the client should retry later, as while a replica is not filled yet."""


class InternalError(ApiError):
    """Raised for unexpected errors of the server. The log has the details."""

    def __init__(self, message: str) -> None:
        super().__init__(f"Internal error occurred: {message}", {"causes": [{"message": message}]})


class CorruptObject(InternalError):
    """Raised when the stored value of a key is not a valid object.

    An administrator can write it again in the store, or delete it with
    `ignoreStoreReadErrorWithClusterBreakingPotential`.
    """

    def __init__(self, key: str, why: str) -> None:
        code = "StorageError: corrupt object, Code: 7"
        super().__init__(f"{code}, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}")


class StoreReadError(ApiError, why="StorageReadError"):
    """Raised when a collection cannot be deleted, because some of its objects cannot be read."""


NEVER_AGAIN = 0
"""Retry-After of an error that will last, or after which a write may have been carried out: client-go repeats each 5xx
that has one, ten times."""


class ServiceUnavailable(ApiError, http=503, grpc="UNAVAILABLE", why="ServiceUnavailable"):
    """Raised when the store does not answer, or this process shuts down."""

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message, retry_after=retry_after)


class StoreFull(ApiError, http=500, grpc="RESOURCE_EXHAUSTED"):
    """Raised when the store is full; reads and deletions still work. As upstream's, its Status has no reason."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        del self.status["reason"]


class TooLargeVersion(ApiError, http=504, grpc="DEADLINE_EXCEEDED", why="Timeout"):
    """Raised when the replica does not reach the requested revision in time."""

    def __init__(self, wanted: int, current: int) -> None:
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        message = f"Timeout: Too large resource version: {wanted}, current: {current}"
        super().__init__(message, {"causes": [cause]}, retry_after=1)


class RequestTimeout(ApiError, http=504, grpc="DEADLINE_EXCEEDED", why="Timeout"):
    """Raised when a request passes the server's own deadline."""

    def __init__(self, seconds: float, retry_after: int = NEVER_AGAIN) -> None:
        super().__init__(f"Timeout: request did not complete within {seconds:g}s", retry_after=retry_after)


class WorkTimeout(ApiError, http=504, grpc="DEADLINE_EXCEEDED", why="Timeout"):
    """Raised when the work for one request exceeds its time limit."""


BY_CODE: dict[int, type[ApiError]] = {413: BodyTooLarge, 422: Invalid}
"""Errors of bodies, patches and selectors by HTTP code; all others become BadRequest."""
PATCH_REJECTED = "the server rejected our request due to an error in our request"
"""Upstream's text for a patch that cannot be applied."""


def as_api_error(error: NodeplaneError) -> ApiError:
    """Return the API error for an error of the store, the bus or request parsing.

    A store that does not answer becomes ServiceUnavailable, which clients retry: unless a write may have happened.
    """
    if isinstance(error, ApiError):
        return error
    if isinstance(error, BudgetSpent):
        return BodyTooLarge(str(error))
    if isinstance(error, DeadlinePassed):
        return WorkTimeout(str(error))
    if isinstance(error, KubeError):
        text = f"{PATCH_REJECTED}: {error}" if isinstance(error, PatchImpossible) else str(error)
        return BY_CODE.get(error.http, BadRequest)(text)
    if isinstance(error, etcd.TooManyRequests):
        return TooManyRequests(str(error), retry_after=1)
    if isinstance(error, etcd.NoSpace):
        return StoreFull(str(error))
    if isinstance(error, etcd.TooLarge):
        return BodyTooLarge(str(error))
    if isinstance(error, etcd.Compacted):
        return Expired(str(error))
    if isinstance(error, etcd.Unavailable):
        unknown = isinstance(error, etcd.OutcomeUnknown)
        return ServiceUnavailable(f"the store does not answer: {error}", retry_after=NEVER_AGAIN if unknown else 1)
    if error.http == ServiceUnavailable.http:
        return ServiceUnavailable(str(error))
    return InternalError(str(error))
