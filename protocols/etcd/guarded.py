"""Requests of writes guarded by a comparison, and results from their responses or from a later read. Pure."""

from protocols.etcd.types import Companions, KeyValue, Written, key_value
from protocols.wire import etcd_pb2 as pb


def create(key: bytes, value: bytes, lease: int) -> pb.TxnRequest:
    """Return the write of a key that must not exist; the other branch reads what does."""
    return _put(_guarded(key, 0), key, value, lease)


def create_all(pairs: list[tuple[bytes, bytes]]) -> pb.TxnRequest:
    """Return the transaction that creates all keys, or none if one exists. etcd takes 128 in one transaction."""
    parts = [create(key, value, 0) for key, value in pairs]
    return pb.TxnRequest(compare=[part.compare[0] for part in parts], success=[part.success[0] for part in parts])


def update(key: bytes, value: bytes, revision: int, lease: int) -> pb.TxnRequest:
    """Return the write of a key that must stand at `revision`; the other branch reads it."""
    return _put(_guarded(key, revision), key, value, lease)


def delete(key: bytes, revision: int) -> pb.TxnRequest:
    """Return the deletion of a key that must stand at `revision`; the other branch reads it."""
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
    for key, revision in also.held.items():
        request.compare.add(target=pb.Compare.MOD, result=pb.Compare.EQUAL, key=key, mod_revision=revision)
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


def put_result(response: pb.TxnResponse) -> Written:
    """Return the result of a create or an update."""
    revision = response.header.revision
    if response.succeeded:
        return Written(True, revision)
    taken = tuple(kv.key for part in response.responses[1:] for kv in part.response_range.kvs)
    return Written(False, revision, _current(response), taken)


def own_put(current: KeyValue | None, revision: int, value: bytes, guard: int) -> Written | None:
    """Return the result of a create (guard 0) or an update whose answer was lost, from a later read of its key.

    None: not known. Exactly the bytes that were to be written, put by the very write the guard allowed, are its own.
    """
    if current is None or current.value != value or current.mod_revision <= guard:
        return None
    return Written(True, current.mod_revision, current, by_read=True) if guard or current.version == 1 else None


def delete_result(response: pb.TxnResponse) -> Written:
    """Return the result of a deletion: the removed value, or the current one that prevented it."""
    revision = response.header.revision
    if not response.succeeded:
        return Written(False, revision, _current(response))
    gone = response.responses[0].response_delete_range.prev_kvs
    return Written(True, revision, key_value(gone[0]) if gone else None)


def own_delete(current: KeyValue | None, revision: int) -> Written | None:
    """Return the result of a deletion whose answer was lost, from a read of its key at `revision`.

    None: not known. A key that is gone counts as deleted: the guard had seen it.
    """
    return Written(True, revision, None, by_read=True) if current is None else None


def _current(response: pb.TxnResponse) -> KeyValue | None:
    """Return the key as a failed comparison found it."""
    kvs = response.responses[0].response_range.kvs
    return key_value(kvs[0]) if kvs else None
