"""Errors of kinds that are no list of causes."""

from collections.abc import Sequence

from protocols.errors import NodeplaneError
from protocols.kinds.check.causes import Cause


class AllocationInvalid(NodeplaneError, http=422, grpc="INVALID_ARGUMENT"):
    """Raised when an object asks for a value that the server cannot allocate to it, such as a cluster IP in use."""

    def __init__(self, causes: Sequence[Cause]) -> None:
        super().__init__("; ".join(f"{cause.field}: {cause.message}" for cause in causes))
        self.causes = causes


class RangeFull(NodeplaneError, http=500, grpc="RESOURCE_EXHAUSTED"):
    """Raised when no value is left to allocate, or a family of addresses has no range."""
