"""Check write requests, independently of the state."""

from collections.abc import Iterable, Iterator, Sequence

from actors.store.model.errors import (
    DuplicateKey,
    EmptyKey,
    KeyNotFound,
    LeaseProvided,
    RequestTooLarge,
    TooManyOperations,
    ValueProvided,
)
from actors.store.model.types import in_range
from actors.store.mvcc.operations import check_range
from protocols.wire import etcd_pb2 as pb

Deletes = list[tuple[bytes, bytes]]
MOST_OPERATIONS = 1024
"""Operations of a transaction with those nested in it: each put is compared with each deleted range. etcd has no bound
beside that of a branch."""


def check_size(request: pb.PutRequest | pb.TxnRequest | pb.DeleteRangeRequest, limit: int) -> None:
    """Raise RequestTooLarge for a request of more than `limit` bytes."""
    if request.ByteSize() > limit:
        raise RequestTooLarge()


def check_put(request: pb.PutRequest) -> None:
    """Raise the error of a Put whose fields contradict each other, or that has no key."""
    if not request.key:
        raise EmptyKey()
    if request.ignore_value and request.value:
        raise ValueProvided()
    if request.ignore_lease and request.lease:
        raise LeaseProvided()


def check_delete(request: pb.DeleteRangeRequest) -> None:
    """Raise EmptyKey for a DeleteRange without a key."""
    if not request.key:
        raise EmptyKey()


def check_txn(request: pb.TxnRequest, limit: int) -> None:
    """Check the shape, then that no execution could change a key twice."""
    if _check_shape(request, limit) > MOST_OPERATIONS:
        raise TooManyOperations()
    for branch in (request.success, request.failure):
        if _may_repeat(branch):
            _touched(branch)


def _may_repeat(branch: Sequence[pb.RequestOp]) -> bool:
    """Return False for a single operation, as API servers send them: it changes a key once."""
    return len(branch) > 1 or (len(branch) == 1 and branch[0].HasField("request_txn"))


def _check_shape(request: pb.TxnRequest, limit: int) -> int:
    """Return the number of operations, nested ones included."""
    longest = max(len(request.compare), len(request.success), len(request.failure))
    if longest > limit:
        raise TooManyOperations()
    for compare in request.compare:
        if not compare.key:
            raise EmptyKey()
    left = limit - longest  # for a transaction in one of them, as in etcd
    return sum(_check_operation(each, left) for branch in (request.success, request.failure) for each in branch)


def _check_operation(operation: pb.RequestOp, limit: int) -> int:
    match operation.WhichOneof("request"):
        case "request_range":
            check_range(operation.request_range)
        case "request_put":
            check_put(operation.request_put)
        case "request_delete_range":
            check_delete(operation.request_delete_range)
        case "request_txn":
            return 1 + _check_shape(operation.request_txn, limit)
        case _:
            raise KeyNotFound()
    return 1


def _touched(operations: Iterable[pb.RequestOp]) -> tuple[set[bytes], Deletes]:
    """Return the keys put and ranges deleted by a branch.

    A nested transaction runs only one of its branches, so these may overlap.
    """
    branch = list(operations)
    deletes = [(op.request_delete_range.key, op.request_delete_range.range_end) for op in _only(branch, "delete_range")]
    puts: set[bytes] = set()
    for op in _only(branch, "txn"):
        then_puts, then_deletes = _touched(op.request_txn.success)
        else_puts, else_deletes = _touched(op.request_txn.failure)
        _add(puts, then_puts | else_puts, deletes)
        deletes = [*deletes, *then_deletes, *else_deletes]
    for op in _only(branch, "put"):
        _add(puts, {op.request_put.key}, deletes)
    return puts, deletes


def _only(operations: list[pb.RequestOp], kind: str) -> Iterator[pb.RequestOp]:
    return (operation for operation in operations if operation.WhichOneof("request") == f"request_{kind}")


def _add(puts: set[bytes], more: set[bytes], deletes: Deletes) -> None:
    twice = puts & more or any(in_range(key, start, end) for key in more for start, end in deletes)
    if twice:
        raise DuplicateKey()
    puts |= more
