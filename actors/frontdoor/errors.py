"""What the front door refuses, each with the code its clients see."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class PositionLost(NodeplaneError):
    """Raised when a client resumes from a position that is not kept; it starts again with a snapshot."""

    http: ClassVar[int] = 410
    grpc: ClassVar[str] = "OUT_OF_RANGE"


class MetadataInvalid(NodeplaneError):
    """Raised when one of our request metadata keys has a value that means nothing."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class TooManyWatchers(NodeplaneError):
    """Raised when as many watches are open as are allowed."""

    http: ClassVar[int] = 429
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class WatcherTooSlow(NodeplaneError):
    """Raised in a watch whose client did not read for so long that its queue is full; others do not notice."""

    http: ClassVar[int] = 429
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class RateExceeded(NodeplaneError):
    """Raised for a unary call over the rate that is shared by all clients. The text is kubelet's."""

    http: ClassVar[int] = 429
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class PodUnknown(NodeplaneError):
    """Raised when Get names a pod that holds nothing on this node."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"


class SourcesNotSynced(NodeplaneError):
    """Raised by the pods API until podworker has told what pods there are."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class WatchDisabled(NodeplaneError):
    """Raised by the watch methods while the feature gate is off; the code is that of a server without them."""

    http: ClassVar[int] = 501
    grpc: ClassVar[str] = "UNIMPLEMENTED"


class Stopping(NodeplaneError):
    """Raised in open watches when this process ends."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"
