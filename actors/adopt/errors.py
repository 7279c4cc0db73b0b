"""Errors between kubelet and this process."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class KubeletUnavailable(NodeplaneError):
    """Raised when kubelet's pod resources socket does not answer: kubelet restarts, or the path is wrong."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class MethodUnsupported(KubeletUnavailable):
    """Raised for a method that this kubelet does not offer."""


class KubeletBusy(NodeplaneError):
    """Raised when kubelet's own rate limit, which all its clients share, rejects a call."""

    http: ClassVar[int] = 429
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class ListInconsistent(NodeplaneError):
    """Raised when one response gives a device to two pods: kubelet built it while the device changed hands."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "ABORTED"


class StateFileCorrupt(NodeplaneError):
    """Raised when the state file is damaged or of another version."""


class StateNotPersisted(NodeplaneError):
    """Raised when the disk neither takes the new state nor lets the old state file be removed."""

    http: ClassVar[int] = 507
    grpc: ClassVar[str] = "FAILED_PRECONDITION"
