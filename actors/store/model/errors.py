"""Errors of the store. Texts that begin with `etcdserver:` are part of the protocol: Go clients match them."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class StoreError(NodeplaneError):
    """Base of errors that answer a request; `text` is sent to the client unless a message is given."""

    text: ClassVar[str] = "etcdserver: internal error"

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.text)


class BadOption(NodeplaneError):
    """Raised at start when an option has an unusable value."""

    http = 400
    grpc = "INVALID_ARGUMENT"


class StoreCorrupt(NodeplaneError):
    """Raised at start when the file is damaged, not ours, or of a newer version: the store does not serve it."""

    grpc = "DATA_LOSS"


class StoreUnusable(NodeplaneError):
    """Raised at start when the directory, file or port cannot be opened."""

    grpc = "UNAVAILABLE"


class HistoryDamaged(StoreError):
    """Raised when a page of history in the file cannot be read; current objects are in memory."""

    grpc = "DATA_LOSS"
    text = "etcdserver: corrupt cluster"


class Compacted(StoreError):
    """Raised when a request needs a revision that compaction removed."""

    grpc = "OUT_OF_RANGE"
    text = "etcdserver: mvcc: required revision has been compacted"


class FutureRevision(StoreError):
    """Raised when a request names a revision that does not exist yet."""

    grpc = "OUT_OF_RANGE"
    text = "etcdserver: mvcc: required revision is a future revision"


class EmptyKey(StoreError):
    """Raised when a request has no key."""

    grpc = "INVALID_ARGUMENT"
    text = "etcdserver: key is not provided"


class KeyNotFound(StoreError):
    """Raised when a put with ignore_value or ignore_lease names a key that does not exist."""

    grpc = "INVALID_ARGUMENT"
    text = "etcdserver: key not found"


class ValueProvided(StoreError):
    """Raised when a put has a value and ignore_value."""

    grpc = "INVALID_ARGUMENT"
    text = "etcdserver: value is provided"


class LeaseProvided(StoreError):
    """Raised when a put has a lease and ignore_lease."""

    grpc = "INVALID_ARGUMENT"
    text = "etcdserver: lease is provided"


class TooManyOperations(StoreError):
    """Raised when a transaction has more compares or operations than allowed."""

    grpc = "INVALID_ARGUMENT"
    text = "etcdserver: too many operations in txn request"


class DuplicateKey(StoreError):
    """Raised when one transaction could change one key twice."""

    grpc = "INVALID_ARGUMENT"
    text = "etcdserver: duplicate key given in txn request"


class RequestTooLarge(StoreError):
    """Raised when a write request is larger than the limit."""

    grpc = "INVALID_ARGUMENT"
    text = "etcdserver: request is too large"


class NotDecoded(StoreError):
    """Raised when a request's bytes are not the message its method takes."""

    grpc = "INVALID_ARGUMENT"


class NoSpace(StoreError):
    """Raised when the disk is full or the file reached its bound; nothing of the write was stored."""

    grpc = "RESOURCE_EXHAUSTED"
    text = "etcdserver: mvcc: database space exceeded"


class TooManyRequests(StoreError):
    """Raised when too many writes are waiting."""

    grpc = "RESOURCE_EXHAUSTED"
    text = "etcdserver: too many requests"


class LeaseNotFound(StoreError):
    """Raised when a request names a lease that does not exist (any more)."""

    grpc = "NOT_FOUND"
    text = "etcdserver: requested lease not found"


class LeaseExists(StoreError):
    """Raised when a lease is granted under an id that is taken."""

    grpc = "FAILED_PRECONDITION"
    text = "etcdserver: lease already exists"


class LeaseTooLong(StoreError):
    """Raised when a requested TTL is longer than the protocol allows."""

    grpc = "OUT_OF_RANGE"
    text = "etcdserver: too large lease TTL"


class ClientNotAuthenticated(StoreError):
    """Raised when a TCP client's certificate has expired or its TLS session was resumed."""

    http = 401
    grpc = "UNAUTHENTICATED"


class ClientStalled(StoreError):
    """Raised when a client does not read the snapshot that it asked for."""

    grpc = "DEADLINE_EXCEEDED"


class Stopped(StoreError):
    """Raised for requests that arrive or wait while the store stops."""

    grpc = "UNAVAILABLE"
    text = "etcdserver: server stopped"


class DiskFailed(StoreError):
    """Raised when the file cannot be written for another reason than space; nothing of the write was stored."""

    grpc = "UNAVAILABLE"


class NotSupported(StoreError):
    """Raised for calls of the etcd API that this store does not implement."""

    grpc = "UNIMPLEMENTED"
