"""What can go wrong between claims and drivers; the texts are upstream's, pods show them."""

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
    """Raised when what is prepared already was asked for, and something of it is not."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"


class DriverFailed(NodeplaneError):
    """Raised when a driver refuses, fails, exceeds its deadline, or answers something else than it was asked."""

    http: ClassVar[int] = 502
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class PreparationAborted(NodeplaneError):
    """Raised to whoever waits for a pod's claims when they are to be given back meanwhile."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ABORTED"


class ClaimsNotWritten(NodeplaneError):
    """Raised when the disk refuses the claim checkpoint: no driver is asked for anything new. Worth a retry."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class ClaimStateCorrupt(NodeplaneError):
    """Raised when the claim checkpoint's bytes are not what was written; the file is kept aside."""


class HealthUnimplemented(NodeplaneError):
    """Raised when a driver has no health service after all: it is not asked again."""
