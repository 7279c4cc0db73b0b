"""What a guarded write means when its first answer was lost."""

import pytest

from protocols.etcd import Unavailable, guarded, prefix_end
from protocols.etcd.types import Companions, KeyValue
from protocols.wire import etcd_pb2 as pb
from protocols.wire import mvcc_pb2


def failed(*kvs: mvcc_pb2.KeyValue) -> pb.TxnResponse:
    ranged = pb.ResponseOp(response_range=pb.RangeResponse(kvs=kvs))
    return pb.TxnResponse(header=pb.ResponseHeader(revision=9), responses=[ranged])


def stored(value: bytes, mod: int, version: int) -> mvcc_pb2.KeyValue:
    return mvcc_pb2.KeyValue(key=b"k", value=value, create_revision=3, mod_revision=mod, version=version)


def test_create_finds_its_own_write_only_after_a_retry() -> None:
    mine = failed(stored(b"v", 3, 1))
    assert guarded.put_result(mine, b"v", retried=False, guard=0).ok is False
    own = guarded.put_result(mine, b"v", retried=True, guard=0)
    assert (own.ok, own.revision, own.repeated) == (True, 3, True)
    other = guarded.put_result(failed(stored(b"w", 3, 1)), b"v", retried=False, guard=0)
    assert (other.ok, other.current) == (False, KeyValue(b"k", b"w", 3, 3, 1))


def test_update_finds_its_own_write_only_above_its_guard() -> None:
    assert guarded.put_result(failed(stored(b"v", 5, 2)), b"v", retried=True, guard=3).revision == 5
    assert guarded.put_result(failed(stored(b"v", 2, 2)), b"v", retried=True, guard=3).ok is False
    assert guarded.put_result(failed(), b"v", retried=False, guard=3).ok is False


@pytest.mark.parametrize(
    ("found", "guard"),
    [
        ([stored(b"w", 3, 1)], 0),
        ([stored(b"v", 5, 2)], 0),
        ([stored(b"w", 5, 2)], 3),
        ([], 3),
    ],
    ids=["created by another, or also by us before", "changed since", "changed since our guard", "deleted since"],
)
def test_write_that_was_overtaken_after_a_lost_answer_is_not_known(found: list[mvcc_pb2.KeyValue], guard: int) -> None:
    with pytest.raises(Unavailable, match="whether the write took effect is not known"):
        guarded.put_result(failed(*found), b"v", retried=True, guard=guard)
    assert guarded.put_result(failed(*found), b"v", retried=False, guard=guard).ok is False


def test_deletion_that_was_overtaken_after_a_lost_answer_is_not_known() -> None:
    with pytest.raises(Unavailable, match="whether the write took effect is not known"):
        guarded.delete_result(failed(stored(b"w", 5, 1)), retried=True)
    assert guarded.delete_result(failed(stored(b"w", 5, 1)), retried=False).ok is False


def test_delete_finds_the_key_gone() -> None:
    assert guarded.delete_result(failed(), retried=False).ok is False
    again = guarded.delete_result(failed(), retried=True)
    assert (again.ok, again.repeated, again.revision) == (True, True, 9)


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
    done = guarded.put_result(answer, b"w", retried=False, guard=7)
    assert (done.ok, done.taken) == (False, (b"a",))
    assert done.current is not None
    assert done.current.mod_revision == 7, "the key itself has not changed"


def test_own_write_with_companions_is_found_after_a_retry() -> None:
    answer = failed(stored(b"v", 3, 1))
    own = mvcc_pb2.KeyValue(key=b"a", value=b"1", mod_revision=3)
    answer.responses.append(pb.ResponseOp(response_range=pb.RangeResponse(kvs=[own])))
    assert guarded.put_result(answer, b"v", retried=True, guard=0).ok
