"""Errors of the node endpoint. `http` is the status code of the response, `reason` that of its Status object."""

from typing import ClassVar

import msgspec
from aiohttp import web

from protocols.errors import NodeplaneError


class EndpointError(NodeplaneError):
    """Base of all errors of the node endpoint."""

    reason: ClassVar[str] = "InternalError"
    retry_s: ClassVar[int] = 0
    """Value of Retry-After in seconds; 0 if a retry is pointless."""

    def __init_subclass__(
        cls, *, http: int | None = None, grpc: str | None = None, reason: str = "", retry_s: int = 0
    ) -> None:
        super().__init_subclass__(http=http, grpc=grpc)
        cls.reason, cls.retry_s = reason or cls.reason, retry_s or cls.retry_s


class CallerUnknown(EndpointError, http=401, grpc="UNAUTHENTICATED", reason="Unauthorized"):
    """Raised when a request has neither a client certificate of this plane nor a valid bearer token."""


class CallerForbidden(EndpointError, http=403, grpc="PERMISSION_DENIED", reason="Forbidden"):
    """Raised when the caller has no right to this node's page or stream."""


class AccessUndecided(EndpointError):
    """Raised when the API does not answer a review of the caller's rights."""


class RequestInvalid(EndpointError, http=400, grpc="INVALID_ARGUMENT", reason="BadRequest"):
    """Raised when a query is malformed, or the container is not yet in the state that the request needs."""


class StreamTargetMissing(EndpointError, http=404, grpc="NOT_FOUND", reason="NotFound"):
    """Raised when this node has no such pod or container, or no such path."""


class NotSynced(EndpointError, http=503, grpc="UNAVAILABLE", reason="ServiceUnavailable", retry_s=1):
    """Raised shortly after a start, while the pods of the node are not known; clients retry by themselves."""


class RuntimeUnavailable(EndpointError, http=503, grpc="UNAVAILABLE", reason="ServiceUnavailable"):
    """Raised when the container runtime does not answer or does not open the stream."""


def status(error: EndpointError) -> dict[str, object]:
    """Return the Status object of an error."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(error),
        "reason": error.reason,
        **({"details": {"retryAfterSeconds": error.retry_s}} if error.retry_s else {}),
        "code": error.http,
    }


def error_response(error: EndpointError) -> web.Response:
    """Return the response of an error, with its Status as JSON."""
    return web.Response(body=msgspec.json.encode(status(error)), status=error.http, content_type="application/json")
