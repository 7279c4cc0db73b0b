"""Errors of the etcd API as exceptions. Clients distinguish them by code and text, so the texts are wire facts."""

from typing import ClassVar

import grpc

from protocols.errors import NodeplaneError
from protocols.etcd.transport.frames import NOT_CONNECTED
from protocols.http2.frames import GOING_AWAY


class EtcdError(NodeplaneError):
    """Base class; raised itself for a fault without a class of its own."""


class Unavailable(EtcdError):
    """Raised when no member could be asked, or the connection broke."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class DeadlineExceeded(Unavailable):
    """Raised when the answer did not come in time."""

    http: ClassVar[int] = 504
    grpc: ClassVar[str] = "DEADLINE_EXCEEDED"


class NotSent(Unavailable):
    """Raised when there was no connection, or the member did not take the call: nothing was written."""


class OutcomeUnknown(Unavailable):
    """Raised when a write was sent and its answer is lost: it may have happened, or may happen yet."""

    def __init__(self, lost: Unavailable) -> None:
        super().__init__(f"{lost}: whether the write took effect is not known")


class Compacted(EtcdError):
    """Raised when the revision asked for is gone; `compact_revision` is the oldest one served, 0 when not known."""

    http: ClassVar[int] = 410
    grpc: ClassVar[str] = "OUT_OF_RANGE"

    def __init__(self, message: str, compact_revision: int = 0) -> None:
        super().__init__(message)
        self.compact_revision = compact_revision


class FutureRevision(EtcdError):
    """Raised when the revision asked for does not exist yet."""

    http: ClassVar[int] = 504
    grpc: ClassVar[str] = "OUT_OF_RANGE"


class TooLarge(EtcdError):
    """Raised when a write is larger than the store takes."""

    http: ClassVar[int] = 413
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class AnswerTooLarge(EtcdError):
    """Raised when an answer is larger than this client takes (`EtcdOptions.max_message`): ask for fewer keys."""

    http: ClassVar[int] = 500
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class NoSpace(EtcdError):
    """Raised when the store's disk or quota is full; nothing was written."""

    http: ClassVar[int] = 500
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class TooManyRequests(EtcdError):
    """Raised when the store is overloaded; nothing was written."""

    http: ClassVar[int] = 429
    grpc: ClassVar[str] = "RESOURCE_EXHAUSTED"


class LeaseNotFound(EtcdError):
    """Raised when a lease is gone."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"


class InvalidRequest(EtcdError):
    """Raised when the store does not take a request for its form."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class WatchCanceled(EtcdError):
    """Raised when the store ended a watch for a reason other than compaction."""

    http: ClassVar[int] = 500
    grpc: ClassVar[str] = "CANCELLED"


class BadEndpoint(EtcdError):
    """Raised when an endpoint or its certificates cannot be used at all."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


RECEIVED = "grpc: received message larger than max"
"""Error text of etcd's gRPC for a write so large that etcd itself never sees it.

Go programs use the same text for messages they received: do not confuse it with a response too large for us."""
TOO_LARGE = "etcdserver: request is too large"
TEXTS: dict[str, type[EtcdError]] = {
    "required revision has been compacted": Compacted,
    "required revision is a future revision": FutureRevision,
    "request is too large": TooLarge,
    RECEIVED: TooLarge,
    "received message larger than max": AnswerTooLarge,
    "database space exceeded": NoSpace,
    "too many requests": TooManyRequests,
    "requested lease not found": LeaseNotFound,
    NOT_CONNECTED: NotSent,
    GOING_AWAY: NotSent,
}
CODES: dict[grpc.StatusCode, type[EtcdError]] = {
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    # A connection that ends under a call shows as either of these two.
    grpc.StatusCode.CANCELLED: Unavailable,
    grpc.StatusCode.UNKNOWN: EtcdError,
}


def etcd_error(error: grpc.aio.AioRpcError) -> EtcdError:
    """The typed form of a failed call."""
    text = error.details() or str(error.code())
    for part, kind in TEXTS.items():
        if part in text:
            return kind(TOO_LARGE if kind is TooLarge else text)
    return CODES.get(error.code(), EtcdError)(text)
