"""Errors between kubelet and this process."""

from protocols.errors import NodeplaneError


class KubeletUnavailable(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised when kubelet's pod resources socket does not answer: kubelet restarts, or the path is wrong."""


class MethodUnsupported(KubeletUnavailable):
    """Raised for a method that this kubelet does not offer."""


class KubeletBusy(NodeplaneError, http=429, grpc="RESOURCE_EXHAUSTED"):
    """Raised when kubelet's own rate limit, which all its clients share, rejects a call."""


class ListInconsistent(NodeplaneError, http=503, grpc="ABORTED"):
    """Raised when one response gives a device to two pods: kubelet built it while the device changed hands."""


class StateFileCorrupt(NodeplaneError):
    """Raised when the state file is damaged or of another version."""


class StateNotPersisted(NodeplaneError, http=507, grpc="FAILED_PRECONDITION"):
    """Raised when the disk neither takes the new state nor lets the old state file be removed."""
