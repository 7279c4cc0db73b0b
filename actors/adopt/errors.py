"""What can go wrong between kubelet and us, each with its mend."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class KubeletAway(NodeplaneError):
    """Raised when kubelet's pod resources socket does not answer: kubelet restarts, or the path is wrong."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class KubeletBusy(NodeplaneError):
    """Raised when kubelet's own rate limit refused a question; all its clients share it."""

    http: ClassVar[int] = 429
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class AnswerTorn(NodeplaneError):
    """Raised when one answer of kubelet gives a device to two pods: it was put together while that changed hands."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "ABORTED"


class RecordCorrupt(NodeplaneError):
    """Raised for a record of what was told that is not as it was written."""


class NotWritten(NodeplaneError):
    """Raised when the disk neither takes the record of what is to be told nor lets go of the one it has."""

    http: ClassVar[int] = 507
    grpc: ClassVar[str] = "FAILED_PRECONDITION"
