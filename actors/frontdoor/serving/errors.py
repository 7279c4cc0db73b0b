"""Errors of the pod resources and pods APIs, with the gRPC code that clients see."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class PositionLost(NodeplaneError):
    """Raised when a client resumes from a position that is no longer retained; it must start with a snapshot."""

    http: ClassVar[int] = 410
    grpc: ClassVar[str] = "OUT_OF_RANGE"


class MetadataInvalid(NodeplaneError):
    """Raised when a `nodeplane-*` request metadata key has an invalid value."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class TooManyWatchers(NodeplaneError):
    """Raised when the limit of open watches is reached, in total or for one client."""

    http: ClassVar[int] = 429
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class WatcherTooSlow(NodeplaneError):
    """Raised in a watch whose queue is full because its client does not read. Other watches are not affected."""

    http: ClassVar[int] = 429
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class RateExceeded(NodeplaneError):
    """Raised for a unary call over the rate limit. The message is kubelet's."""

    http: ClassVar[int] = 429
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class PodUnknown(NodeplaneError):
    """Raised when Get names a pod that holds no resources on this node, or GetPod one that is not on it."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"


class SourcesNotSynced(NodeplaneError):
    """Raised by the pods API until podworker has published the pods of this node."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class WatchDisabled(NodeplaneError):
    """Raised by the watch methods while their feature gate is off, with the code of a server without them."""

    http: ClassVar[int] = 501
    grpc: ClassVar[str] = "UNIMPLEMENTED"


class Stopping(NodeplaneError):
    """Raised in open watches when this process stops."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"
