"""Results of guarded writes: from their answers, or from a read when the answer was lost. Pure."""

import pytest

from protocols.etcd import guarded
from protocols.etcd.types import Companions, KeyValue, Written, prefix_end
from protocols.wire import etcd_pb2 as pb
from protocols.wire import mvcc_pb2


def failed(*kvs: mvcc_pb2.KeyValue) -> pb.TxnResponse:
    ranged = pb.ResponseOp(response_range=pb.RangeResponse(kvs=kvs))
    return pb.TxnResponse(header=pb.ResponseHeader(revision=9), responses=[ranged])


def stored(value: bytes, mod: int, version: int) -> mvcc_pb2.KeyValue:
    return mvcc_pb2.KeyValue(key=b"k", value=value, create_revision=3, mod_revision=mod, version=version)


def kept(value: bytes, mod: int, version: int) -> KeyValue:
    return KeyValue(b"k", value, 3, mod, version)


def test_create_that_fails_has_the_key_that_exists() -> None:
    other = guarded.put_result(failed(stored(b"w", 3, 1)))
    assert (other.ok, other.current) == (False, kept(b"w", 3, 1))
    assert guarded.put_result(failed()).current is None


@pytest.mark.parametrize(("current", "guard"), [(kept(b"v", 3, 1), 0), (kept(b"v", 5, 2), 3)], ids=["create", "update"])
def test_own_put_is_proven_by_its_bytes_beyond_its_guard(current: KeyValue, guard: int) -> None:
    own = guarded.own_put(current, 9, b"v", guard)
    assert own == Written(True, current.mod_revision, current, by_read=True)


@pytest.mark.parametrize(
    ("current", "guard"),
    [
        (None, 0),
        (kept(b"w", 3, 1), 0),
        (kept(b"v", 5, 2), 0),
        (kept(b"w", 5, 2), 3),
        (kept(b"v", 3, 1), 3),
        (None, 3),
    ],
    ids=["absent", "created by another, or also by us before", "changed since", "changed since our guard", "unchanged",
         "deleted since"],
)  # fmt: skip
def test_put_that_no_read_proves_is_not_known(current: KeyValue | None, guard: int) -> None:
    assert guarded.own_put(current, 9, b"v", guard) is None


def test_deletion_is_proven_by_a_key_that_is_gone() -> None:
    assert guarded.own_delete(None, 9) == Written(True, 9, None, by_read=True)
    assert guarded.own_delete(kept(b"w", 5, 1), 9) is None
    assert guarded.delete_result(failed()).ok is False
    assert guarded.delete_result(failed(stored(b"w", 5, 1))).current == kept(b"w", 5, 1)


def test_prefix_end() -> None:
    assert prefix_end(b"/registry/") == b"/registry0"
    assert prefix_end(b"a\xff") == b"b"
    assert prefix_end(b"\xff\xff") == prefix_end(b"") == b"\0"


def test_companions_are_guarded_written_and_removed_with_their_key() -> None:
    also = Companions({b"a": b"1"}, [b"b"])
    request = guarded.accompany(guarded.update(b"k", b"v", 7, 0), also)
    assert [(each.key, each.mod_revision) for each in request.compare] == [(b"k", 7), (b"a", 0)]
    assert [each.request_put.key for each in request.success[:2]] == [b"k", b"a"]
    assert request.success[2].request_delete_range.key == b"b"
    assert [each.request_range.key for each in request.failure] == [b"k", b"a"]


def test_companion_that_exists_is_reported_beside_the_current_key() -> None:
    answer = failed(stored(b"v", 7, 1))
    taken = mvcc_pb2.KeyValue(key=b"a", value=b"2", mod_revision=3)
    answer.responses.append(pb.ResponseOp(response_range=pb.RangeResponse(kvs=[taken])))
    answer.responses.append(pb.ResponseOp(response_range=pb.RangeResponse()))
    done = guarded.put_result(answer)
    assert (done.ok, done.taken) == (False, (b"a",))
    assert done.current is not None
    assert done.current.mod_revision == 7, "the key itself has not changed"
