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


class CallerUnknown(EndpointError):
    """Raised when a request has neither a client certificate of this plane nor a valid bearer token."""

    http: ClassVar[int] = 401
    grpc: ClassVar[str] = "UNAUTHENTICATED"
    reason: ClassVar[str] = "Unauthorized"


class CallerForbidden(EndpointError):
    """Raised when the caller has no right to this node's page or stream."""

    http: ClassVar[int] = 403
    grpc: ClassVar[str] = "PERMISSION_DENIED"
    reason: ClassVar[str] = "Forbidden"


class AccessUndecided(EndpointError):
    """Raised when the API does not answer a review of the caller's rights."""


class RequestInvalid(EndpointError):
    """Raised when a query is malformed, or the container is not yet in the state that the request needs."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"
    reason: ClassVar[str] = "BadRequest"


class StreamTargetMissing(EndpointError):
    """Raised when this node has no such pod or container, or no such path."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"
    reason: ClassVar[str] = "NotFound"


class NotSynced(EndpointError):
    """Raised shortly after a start, while the pods of the node are not known; clients retry by themselves."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"
    reason: ClassVar[str] = "ServiceUnavailable"
    retry_s: ClassVar[int] = 1


class RuntimeUnavailable(EndpointError):
    """Raised when the container runtime does not answer or does not open the stream."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"
    reason: ClassVar[str] = "ServiceUnavailable"


def status(error: EndpointError) -> dict[str, object]:
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
    return web.Response(body=msgspec.json.encode(status(error)), status=error.http, content_type="application/json")
