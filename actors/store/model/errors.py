"""Errors of the store. Texts that begin with `etcdserver:` are part of the protocol: Go clients match them."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class StoreError(NodeplaneError):
    """Base of errors that answer a request; `text` is sent to the client unless a message is given."""

    text: ClassVar[str] = "etcdserver: internal error"

    def __init_subclass__(cls, *, http: int | None = None, grpc: str | None = None, text: str = "") -> None:
        super().__init_subclass__(http=http, grpc=grpc)
        cls.text = text or cls.text

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.text)


class BadOption(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised at start when an option has an unusable value."""


class StoreCorrupt(NodeplaneError, grpc="DATA_LOSS"):
    """Raised at start when the file is damaged, not ours, or of a newer version: the store does not serve it."""


class StoreUnusable(NodeplaneError, grpc="UNAVAILABLE"):
    """Raised at start when the directory, file or port cannot be opened."""


class HistoryDamaged(StoreError, grpc="DATA_LOSS", text="etcdserver: corrupt cluster"):
    """Raised when a page of history in the file cannot be read; current objects are in memory."""


class Compacted(StoreError, grpc="OUT_OF_RANGE", text="etcdserver: mvcc: required revision has been compacted"):
    """Raised when a request needs a revision that compaction removed."""


class FutureRevision(StoreError, grpc="OUT_OF_RANGE", text="etcdserver: mvcc: required revision is a future revision"):
    """Raised when a request names a revision that does not exist yet."""


class EmptyKey(StoreError, grpc="INVALID_ARGUMENT", text="etcdserver: key is not provided"):
    """Raised when a request has no key."""


class KeyNotFound(StoreError, grpc="INVALID_ARGUMENT", text="etcdserver: key not found"):
    """Raised when a put with ignore_value or ignore_lease names a key that does not exist."""


class ValueProvided(StoreError, grpc="INVALID_ARGUMENT", text="etcdserver: value is provided"):
    """Raised when a put has a value and ignore_value."""


class LeaseProvided(StoreError, grpc="INVALID_ARGUMENT", text="etcdserver: lease is provided"):
    """Raised when a put has a lease and ignore_lease."""


class TooManyOperations(StoreError, grpc="INVALID_ARGUMENT", text="etcdserver: too many operations in txn request"):
    """Raised when a transaction has more compares or operations than allowed."""


class DuplicateKey(StoreError, grpc="INVALID_ARGUMENT", text="etcdserver: duplicate key given in txn request"):
    """Raised when one transaction could change one key twice."""


class RequestTooLarge(StoreError, grpc="INVALID_ARGUMENT", text="etcdserver: request is too large"):
    """Raised when a write request is larger than the limit."""


class NotDecoded(StoreError, grpc="INVALID_ARGUMENT"):
    """Raised when a request's bytes are not the message its method takes."""


class NoSpace(StoreError, grpc="RESOURCE_EXHAUSTED", text="etcdserver: mvcc: database space exceeded"):
    """Raised when the disk is full or the file reached its bound; nothing of the write was stored."""


class TooManyRequests(StoreError, grpc="RESOURCE_EXHAUSTED", text="etcdserver: too many requests"):
    """Raised when too many writes are waiting."""


class LeaseNotFound(StoreError, grpc="NOT_FOUND", text="etcdserver: requested lease not found"):
    """Raised when a request names a lease that does not exist (any more)."""


class LeaseExists(StoreError, grpc="FAILED_PRECONDITION", text="etcdserver: lease already exists"):
    """Raised when a lease is granted under an id that is taken."""


class LeaseTooLong(StoreError, grpc="OUT_OF_RANGE", text="etcdserver: too large lease TTL"):
    """Raised when a requested TTL is longer than the protocol allows."""


class ClientNotAuthenticated(StoreError, http=401, grpc="UNAUTHENTICATED"):
    """Raised when a TCP client's certificate has expired or its TLS session was resumed."""


class ClientStalled(StoreError, grpc="DEADLINE_EXCEEDED"):
    """Raised when a client does not read the snapshot that it asked for."""


class Stopped(StoreError, grpc="UNAVAILABLE", text="etcdserver: server stopped"):
    """Raised for requests that arrive or wait while the store stops."""


class DiskFailed(StoreError, grpc="UNAVAILABLE"):
    """Raised when the file cannot be written for another reason than space; nothing of the write was stored."""


class NotSupported(StoreError, grpc="UNIMPLEMENTED"):
    """Raised for calls of the etcd API that this store does not implement."""
