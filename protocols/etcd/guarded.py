"""Requests of writes guarded by a comparison, and results from their responses. Pure."""

from protocols.etcd.errors import Unavailable
from protocols.etcd.types import Companions, Written, key_value
from protocols.wire import etcd_pb2 as pb

OVERTAKEN = (
    "the connection broke during a write, and the key has changed since: whether the write took effect is not known"
)


def create(key: bytes, value: bytes, lease: int) -> pb.TxnRequest:
    return _put(_guarded(key, 0), key, value, lease)


def create_all(pairs: list[tuple[bytes, bytes]]) -> pb.TxnRequest:
    """All of them, or none when a key exists already. etcd takes 128 in one transaction."""
    parts = [create(key, value, 0) for key, value in pairs]
    return pb.TxnRequest(compare=[part.compare[0] for part in parts], success=[part.success[0] for part in parts])


def update(key: bytes, value: bytes, revision: int, lease: int) -> pb.TxnRequest:
    return _put(_guarded(key, revision), key, value, lease)


def delete(key: bytes, revision: int) -> pb.TxnRequest:
    request = _guarded(key, revision)
    removal = request.success.add().request_delete_range
    removal.key, removal.prev_kv = key, True
    return request


def accompany(request: pb.TxnRequest, also: Companions) -> pb.TxnRequest:
    """Add companions to a guarded request."""
    for key, value in also.added.items():
        request.compare.add(target=pb.Compare.MOD, result=pb.Compare.EQUAL, key=key, mod_revision=0)
        put = request.success.add().request_put
        put.key, put.value = key, value
        request.failure.add().request_range.key = key
    for key in also.removed:
        request.success.add().request_delete_range.key = key
    return request


def _put(request: pb.TxnRequest, key: bytes, value: bytes, lease: int) -> pb.TxnRequest:
    put = request.success.add().request_put
    put.key, put.value, put.lease = key, value, lease
    return request


def _guarded(key: bytes, revision: int) -> pb.TxnRequest:
    """Return a request without its write. Messages are made in place: given as arguments they would be copied."""
    request = pb.TxnRequest()
    request.compare.add(target=pb.Compare.MOD, result=pb.Compare.EQUAL, key=key, mod_revision=revision)
    request.failure.add().request_range.key = key
    return request


def put_result(response: pb.TxnResponse, value: bytes, retried: bool, guard: int) -> Written:
    """Return the result of a create (guard 0) or of an update guarded by a revision.

    After a retry, finding exactly the bytes that were to be written, put by the very write the guard allowed, means
    that the first try succeeded.

    Raises:
        Unavailable: After a retry the key is beyond the guard: the first try may have succeeded and been overwritten.
    """
    if response.succeeded:
        return Written(True, response.header.revision)
    found = response.responses[0].response_range.kvs
    current = key_value(found[0]) if found else None
    own = retried and current is not None and current.value == value and current.mod_revision > guard
    if own and current is not None and (guard or current.version == 1):
        return Written(True, current.mod_revision, current, repeated=True)
    if retried and (current.mod_revision > guard if current is not None else guard > 0):
        raise Unavailable(OVERTAKEN)
    taken = tuple(kv.key for each in response.responses[1:] for kv in each.response_range.kvs)
    return Written(False, response.header.revision, current, taken)


def delete_result(response: pb.TxnResponse, retried: bool) -> Written:
    """Return the result of a deletion. After a retry a key that is gone counts as deleted: the guard had seen it.

    Raises:
        Unavailable: After a retry the key is another: the first try may have succeeded, and the key been made anew.
    """
    revision = response.header.revision
    if response.succeeded:
        gone = response.responses[0].response_delete_range.prev_kvs
        return Written(True, revision, key_value(gone[0]) if gone else None)
    found = response.responses[0].response_range.kvs
    if not found and retried:
        return Written(True, revision, None, repeated=True)
    if retried:
        raise Unavailable(OVERTAKEN)
    return Written(False, revision, key_value(found[0]) if found else None)
