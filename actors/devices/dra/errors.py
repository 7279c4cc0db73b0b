"""Errors between claims and drivers. The messages are upstream's; pods show them."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class DriverMissing(NodeplaneError):
    """Raised when a claim needs a driver that is not registered on this node."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class ClaimConflict(NodeplaneError):
    """Raised when a claim of the same name but another uid is still in use on this node."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class ClaimUnprepared(NodeplaneError):
    """Raised when prepared claims are requested but some are not prepared."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"


class DriverFailed(NodeplaneError):
    """Raised when a driver rejects a call, fails, exceeds its deadline, or returns a wrong answer."""

    http: ClassVar[int] = 502
    grpc: ClassVar[str] = "FAILED_PRECONDITION"

    def __init__(self, message: str, status: str = "OK") -> None:
        """`status` is the gRPC code with which a stream ended."""
        super().__init__(message)
        self.status = status


class PreparationAborted(NodeplaneError):
    """Raised for a pending preparation when the pod's claims are unprepared meanwhile, or the process ends."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ABORTED"


class ClaimsNotWritten(NodeplaneError):
    """Raised when the claim checkpoint cannot be written: no driver is called for anything new. Retryable."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class ClaimStateCorrupt(NodeplaneError):
    """Raised when the claim checkpoint is corrupt; the file is renamed."""


class HealthUnimplemented(NodeplaneError):
    """Raised when a driver does not implement the health service it advertises; it is not called again."""
