"""Errors of the etcd API as exceptions. Clients distinguish them by code and text, so the texts are wire facts."""

import grpc

from protocols.errors import NodeplaneError
from protocols.etcd.transport.frames import NOT_CONNECTED
from protocols.http2.frames import GOING_AWAY


class EtcdError(NodeplaneError):
    """Base class; raised itself for a fault without a class of its own."""


class Unavailable(EtcdError, http=503, grpc="UNAVAILABLE"):
    """Raised when no member could be asked, or the connection broke."""


class DeadlineExceeded(Unavailable, http=504, grpc="DEADLINE_EXCEEDED"):
    """Raised when the answer did not come in time."""


class NotSent(Unavailable):
    """Raised when there was no connection, or the member did not take the call: nothing was written."""


class OutcomeUnknown(Unavailable):
    """Raised when a write was sent and its answer is lost: it may have happened, or may happen yet."""

    def __init__(self, lost: Unavailable) -> None:
        super().__init__(f"{lost}: whether the write took effect is not known")


class Compacted(EtcdError, http=410, grpc="OUT_OF_RANGE"):
    """Raised when the revision asked for is gone; `compact_revision` is the oldest one served, 0 when not known."""

    def __init__(self, message: str, compact_revision: int = 0) -> None:
        super().__init__(message)
        self.compact_revision = compact_revision


class FutureRevision(EtcdError, http=504, grpc="OUT_OF_RANGE"):
    """Raised when the revision asked for does not exist yet."""


class TooLarge(EtcdError, http=413, grpc="INVALID_ARGUMENT"):
    """Raised when a write is larger than the store takes."""


class AnswerTooLarge(EtcdError, http=500, grpc="RESOURCE_EXHAUSTED"):
    """Raised when an answer is larger than this client takes (`EtcdOptions.max_message`): ask for fewer keys."""


class NoSpace(EtcdError, http=500, grpc="RESOURCE_EXHAUSTED"):
    """Raised when the store's disk or quota is full; nothing was written."""


class TooManyRequests(EtcdError, http=429, grpc="RESOURCE_EXHAUSTED"):
    """Raised when the store is overloaded; nothing was written."""


class LeaseNotFound(EtcdError, http=404, grpc="NOT_FOUND"):
    """Raised when a lease is gone."""


class InvalidRequest(EtcdError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when the store does not take a request for its form."""


class WatchCanceled(EtcdError, http=500, grpc="CANCELLED"):
    """Raised when the store ended a watch for a reason other than compaction."""


class BadEndpoint(EtcdError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when an endpoint or its certificates cannot be used at all."""


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
    """Return the typed form of a failed call."""
    text = error.details() or str(error.code())
    for part, kind in TEXTS.items():
        if part in text:
            return kind(TOO_LARGE if kind is TooLarge else text)
    return CODES.get(error.code(), EtcdError)(text)
