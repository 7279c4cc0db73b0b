"""What can be wrong with the objects that devices are read from."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class DraError(NodeplaneError):
    """Base class of this package."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class ObjectUnreadable(DraError):
    """Raised when a stored slice, class, patch or rule has a field of the wrong shape: the API refuses such objects, so
    another server let it in, or it is older than the check. Whoever reads it leaves it alone."""
