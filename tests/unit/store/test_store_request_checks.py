"""Which transactions are rejected before they run: those that could change a key twice, however deeply nested."""

import pytest

from actors.store.model.errors import DuplicateKey, EmptyKey, TooManyOperations
from actors.store.mvcc.request_checks import check_txn
from protocols.wire import etcd_pb2 as pb


def put(key: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=b"v"))


def delete(key: bytes, end: bytes = b"") -> pb.RequestOp:
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key, range_end=end))


def nested(*operations: pb.RequestOp, otherwise: tuple[pb.RequestOp, ...] = ()) -> pb.RequestOp:
    return pb.RequestOp(request_txn=pb.TxnRequest(success=operations, failure=otherwise))


@pytest.mark.parametrize(
    "branch",
    [
        [put(b"a"), put(b"a")],
        [put(b"b"), delete(b"a", b"c")],
        [nested(put(b"a"), put(b"a"))],
        [nested(nested(put(b"a"), put(b"a")))],
        [put(b"a"), nested(put(b"a"))],
        [put(b"a"), nested(otherwise=(put(b"a"),))],
    ],
)
def test_txn_key_changed_twice_is_rejected_in_either_branch(branch: list[pb.RequestOp]) -> None:
    with pytest.raises(DuplicateKey):
        check_txn(pb.TxnRequest(success=branch), 128)
    with pytest.raises(DuplicateKey):
        check_txn(pb.TxnRequest(failure=branch), 128)


@pytest.mark.parametrize(
    "branch",
    [
        [],
        [put(b"a")],
        [delete(b"a", b"c")],
        [put(b"a"), put(b"b"), delete(b"c")],
        [nested(put(b"a"), otherwise=(put(b"a"),))],
    ],
)
def test_txn_each_key_changed_once_is_accepted(branch: list[pb.RequestOp]) -> None:
    check_txn(pb.TxnRequest(success=branch, failure=branch), 128)


def test_txn_single_operation_is_checked() -> None:
    with pytest.raises(EmptyKey):
        check_txn(pb.TxnRequest(success=[put(b"")]), 128)
    with pytest.raises(EmptyKey):
        check_txn(pb.TxnRequest(compare=[pb.Compare()]), 128)
    with pytest.raises(TooManyOperations):
        check_txn(pb.TxnRequest(failure=[put(b"a"), put(b"b")]), 1)


def test_txn_with_too_many_nested_operations_is_rejected() -> None:
    """A request of 1.5 MiB compared its puts and deletions for minutes."""
    parts = [nested(*(delete(b"%d/%d" % (part, each)) for each in range(100))) for part in range(10)]
    check_txn(pb.TxnRequest(success=parts), 128)
    with pytest.raises(TooManyOperations):
        check_txn(pb.TxnRequest(success=parts, failure=[put(b"%d" % each) for each in range(20)]), 128)
