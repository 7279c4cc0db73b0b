"""Errors of the pod resources and pods APIs, with the gRPC code that clients see."""

from protocols.errors import NodeplaneError


class PositionLost(NodeplaneError, http=410, grpc="OUT_OF_RANGE"):
    """Raised when a client resumes from a position that is no longer retained; it must start with a snapshot."""


class MetadataInvalid(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when a `nodeplane-*` request metadata key has an invalid value."""


class TooManyWatchers(NodeplaneError, http=429, grpc="RESOURCE_EXHAUSTED"):
    """Raised when the limit of open watches is reached, in total or for one client."""


class WatcherTooSlow(NodeplaneError, http=429, grpc="RESOURCE_EXHAUSTED"):
    """Raised in a watch whose queue is full because its client does not read. Other watches are not affected."""


class RateExceeded(NodeplaneError, http=429, grpc="RESOURCE_EXHAUSTED"):
    """Raised for a unary call over the rate limit. The message is kubelet's."""


class PodUnknown(NodeplaneError, http=404, grpc="NOT_FOUND"):
    """Raised when Get names a pod that holds no resources on this node, or GetPod one that is not on it."""


class SourcesNotSynced(NodeplaneError, http=503, grpc="FAILED_PRECONDITION"):
    """Raised by the pods API until podworker has published the pods of this node."""


class WatchDisabled(NodeplaneError, http=501, grpc="UNIMPLEMENTED"):
    """Raised by the watch methods while their feature gate is off, with the code of a server without them."""


class Stopping(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised in open watches when this process stops."""
