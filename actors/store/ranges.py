"""Pure evaluation of Range: which keys, in which order, how many."""

from collections.abc import Callable
from typing import Protocol

from actors.store.errors import EmptyKey
from actors.store.types import KeyValue
from protocols.wire import etcd_pb2 as pb
from protocols.wire import mvcc_pb2

PAGE_BYTES = 8 * 1024 * 1024
"""Bytes of values after which a range with a limit ends early, with `more`."""


class View(Protocol):
    """Keys at one revision: the index, a draft over it, or history in the file."""

    def get(self, key: bytes) -> KeyValue | None: ...

    def keys(self, start: bytes, end: bytes) -> list[bytes]: ...


SORT_KEYS: dict[int, Callable[[KeyValue], bytes | int]] = {
    pb.RangeRequest.KEY: lambda kv: kv.key,
    pb.RangeRequest.VERSION: lambda kv: kv.version,
    pb.RangeRequest.CREATE: lambda kv: kv.create_revision,
    pb.RangeRequest.MOD: lambda kv: kv.mod_revision,
    pb.RangeRequest.VALUE: lambda kv: kv.value,
}


def check_range(request: pb.RangeRequest) -> None:
    """Raises EmptyKey."""
    if not request.key:
        raise EmptyKey()


def evaluate_range(request: pb.RangeRequest, view: View) -> pb.RangeResponse:
    """Answer from `view`, without header."""
    keys = view.keys(request.key, request.range_end)
    if request.count_only:
        return pb.RangeResponse(count=len(keys))
    limit = max(request.limit, 0)
    if _plain(request):
        return _paged(request, view, keys, limit)
    looked_at = keys[: limit + 1] if limit and _cut_first(request) else keys
    found = _order(request, [kv for kv in _load(view, looked_at) if _wanted(request, kv)])
    more = bool(limit) and len(found) > limit
    found = found[:limit] if limit else found
    return pb.RangeResponse(kvs=[to_wire(kv, request.keys_only) for kv in found], more=more, count=len(keys))


def _paged(request: pb.RangeRequest, view: View, keys: list[bytes], limit: int) -> pb.RangeResponse:
    """In key order. A page ends at PAGE_BYTES, too; one key at least. Values that are not wanted are not kept."""
    wanted = keys[:limit] if limit else keys
    kvs, size = [], 0
    for number, key in enumerate(wanted, 1):
        if (kv := view.get(key)) is not None:
            kvs.append(to_wire(kv, request.keys_only))
            size += 0 if request.keys_only else len(kv.value)
        if limit and size >= PAGE_BYTES:
            wanted = wanted[:number]
            break
    return pb.RangeResponse(kvs=kvs, more=len(wanted) < len(keys), count=len(keys))


def _load(view: View, keys: list[bytes]) -> list[KeyValue]:
    return [kv for key in keys if (kv := view.get(key)) is not None]


def _bounded(request: pb.RangeRequest) -> bool:
    return bool(
        request.min_mod_revision
        or request.max_mod_revision
        or request.min_create_revision
        or request.max_create_revision
    )


def _plain(request: pb.RangeRequest) -> bool:
    """Nothing to filter or sort: the index is in key order already."""
    by_key = request.sort_target == pb.RangeRequest.KEY and request.sort_order != pb.RangeRequest.DESCEND
    return by_key and not _bounded(request)


def _cut_first(request: pb.RangeRequest) -> bool:
    """A target without an order: etcd takes one key more than the limit, sorts these, and cuts."""
    return request.sort_order == pb.RangeRequest.NONE and not _bounded(request)


def _wanted(request: pb.RangeRequest, kv: KeyValue) -> bool:
    return (
        (not request.min_mod_revision or kv.mod_revision >= request.min_mod_revision)
        and (not request.max_mod_revision or kv.mod_revision <= request.max_mod_revision)
        and (not request.min_create_revision or kv.create_revision >= request.min_create_revision)
        and (not request.max_create_revision or kv.create_revision <= request.max_create_revision)
    )


def _order(request: pb.RangeRequest, found: list[KeyValue]) -> list[KeyValue]:
    sort_key = SORT_KEYS.get(request.sort_target, SORT_KEYS[pb.RangeRequest.KEY])
    return sorted(found, key=sort_key, reverse=request.sort_order == pb.RangeRequest.DESCEND)


def to_wire(kv: KeyValue, keys_only: bool = False) -> mvcc_pb2.KeyValue:
    return mvcc_pb2.KeyValue(
        key=kv.key,
        create_revision=kv.create_revision,
        mod_revision=kv.mod_revision,
        version=kv.version,
        value=b"" if keys_only else kv.value,
        lease=kv.lease,
    )
