"""Errors between claims and drivers. The messages are upstream's; pods show them."""

from protocols.errors import NodeplaneError


class DriverMissing(NodeplaneError, http=409, grpc="FAILED_PRECONDITION"):
    """Raised when a claim needs a driver that is not registered on this node."""


class ClaimConflict(NodeplaneError, http=409, grpc="FAILED_PRECONDITION"):
    """Raised when a claim of the same name but another uid is still in use on this node."""


class ClaimUnprepared(NodeplaneError, http=404, grpc="NOT_FOUND"):
    """Raised when prepared claims are requested but some are not prepared."""


class DriverFailed(NodeplaneError, http=502, grpc="FAILED_PRECONDITION"):
    """Raised when a driver rejects a call, fails, exceeds its deadline, or returns a wrong answer."""

    def __init__(self, message: str, status: str = "OK") -> None:
        """`status` is the gRPC code with which a stream ended."""
        super().__init__(message)
        self.status = status


class PreparationAborted(NodeplaneError, http=409, grpc="ABORTED"):
    """Raised for a pending preparation when the pod's claims are unprepared meanwhile, or the process ends."""


class ClaimsNotWritten(NodeplaneError, http=503, grpc="FAILED_PRECONDITION"):
    """Raised when the claim checkpoint cannot be written: no driver is called for anything new. Retryable."""


class ClaimStateCorrupt(NodeplaneError):
    """Raised when the claim checkpoint is corrupt; the file is renamed."""


class HealthUnimplemented(NodeplaneError):
    """Raised when a driver does not implement the health service it advertises; it is not called again."""
