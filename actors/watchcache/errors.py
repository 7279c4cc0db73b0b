"""Faults of the watch cache."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class NotFresh(NodeplaneError):
    """Raised by `freshen` when the revision did not come within its bounded wait."""

    http: ClassVar[int] = 504
    grpc: ClassVar[str] = "DEADLINE_EXCEEDED"


class HistoryLost(NodeplaneError):
    """Raised when the store's data is not a continuation of what this cache has applied: it was restored from a backup
    or replaced. The process ends and starts anew, so that all followers get the store's own state."""

    grpc: ClassVar[str] = "DATA_LOSS"


class StoreTooOld(NodeplaneError):
    """Raised at start when the etcd version is known to lose acknowledged writes."""

    grpc: ClassVar[str] = "FAILED_PRECONDITION"


class StoreUnreachable(NodeplaneError):
    """Raised when the store's endpoints or certificates cannot be used at all."""

    grpc: ClassVar[str] = "UNAVAILABLE"
