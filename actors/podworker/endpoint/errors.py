"""Errors of the node endpoint. `http` is the status code of the response, whose body is the text, as kubelet's.

An API server makes a Status of it: a kube-apiserver would show the JSON of one as the message.
"""

from protocols.errors import NodeplaneError


class EndpointError(NodeplaneError):
    """Base of all errors of the node endpoint."""


class CallerUnknown(EndpointError, http=401, grpc="UNAUTHENTICATED"):
    """Raised when a request has neither a client certificate of this plane nor a valid bearer token."""


class CallerForbidden(EndpointError, http=403, grpc="PERMISSION_DENIED"):
    """Raised when the caller has no right to this node's page or stream."""


class AccessUndecided(EndpointError):
    """Raised when the API does not answer a review of the caller's rights."""


class RequestInvalid(EndpointError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when a query is malformed, or the container is not yet in the state that the request needs."""


class StreamTargetMissing(EndpointError, http=404, grpc="NOT_FOUND"):
    """Raised when this node has no such pod or container, or no such path."""


class NotSynced(EndpointError, http=503, grpc="UNAVAILABLE"):
    """Raised shortly after a start, while the pods of the node are not known; clients retry by themselves."""


class RuntimeUnavailable(EndpointError, http=503, grpc="UNAVAILABLE"):
    """Raised when the container runtime does not answer or does not open the stream."""
