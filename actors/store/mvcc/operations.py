"""Evaluate etcd's operations: Range on a view; Put, DeleteRange, Txn and Compact on a draft. Pure."""

import operator
from collections.abc import Callable
from typing import Protocol

from actors.store.model.errors import Compacted, EmptyKey, FutureRevision, KeyNotFound, LeaseNotFound
from actors.store.mvcc.index import Draft
from protocols.etcd.types import KeyValue
from protocols.wire import etcd_pb2 as pb
from protocols.wire import mvcc_pb2

PAGE_BYTES = 8 * 1024 * 1024
"""Bytes of values after which a range with a limit ends early, with `more` set."""


class KeyView(Protocol):
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
    """Raise EmptyKey for a Range without a key."""
    if not request.key:
        raise EmptyKey()


def evaluate_range(request: pb.RangeRequest, view: KeyView) -> pb.RangeResponse:
    """Return the answer from `view`, without header."""
    keys = view.keys(request.key, request.range_end)
    if request.count_only:
        return pb.RangeResponse(count=len(keys))
    limit = max(request.limit, 0)
    if is_plain(request):
        return _paged(request, view, keys, limit)
    looked_at = keys[: limit + 1] if limit and _cut_first(request) else keys
    kvs = _order(request, [kv for kv in _load(view, looked_at) if _wanted(request, kv)])
    more = bool(limit) and len(kvs) > limit
    kvs = kvs[:limit] if limit else kvs
    return pb.RangeResponse(kvs=[to_wire(kv, request.keys_only) for kv in kvs], more=more, count=len(keys))


def _paged(request: pb.RangeRequest, view: KeyView, keys: list[bytes], limit: int) -> pb.RangeResponse:
    """Answer in key order; with a limit, a page also ends after PAGE_BYTES, with at least one key."""
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


def _load(view: KeyView, keys: list[bytes]) -> list[KeyValue]:
    return [kv for key in keys if (kv := view.get(key)) is not None]


def _bounded(request: pb.RangeRequest) -> bool:
    return bool(
        request.min_mod_revision
        or request.max_mod_revision
        or request.min_create_revision
        or request.max_create_revision
    )


def is_plain(request: pb.RangeRequest) -> bool:
    """Return True if nothing must be filtered or sorted: the index is in key order already."""
    by_key = request.sort_target == pb.RangeRequest.KEY and request.sort_order != pb.RangeRequest.DESCEND
    return by_key and not _bounded(request)


def _cut_first(request: pb.RangeRequest) -> bool:
    """Return True for a sort target without an order: etcd then sorts only the first limit + 1 keys, and cuts."""
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
    """Return a KeyValue of the wire."""
    return mvcc_pb2.KeyValue(
        key=kv.key,
        create_revision=kv.create_revision,
        mod_revision=kv.mod_revision,
        version=kv.version,
        value=b"" if keys_only else kv.value,
        lease=kv.lease,
    )


History = Callable[[int], KeyView]
"""Returns the keys at a committed revision."""

ABSENT = KeyValue(b"", b"", 0, 0, 0)
RELATIONS: dict[int, Callable[[int | bytes, int | bytes], bool]] = {
    pb.Compare.EQUAL: operator.eq,
    pb.Compare.NOT_EQUAL: operator.ne,
    pb.Compare.GREATER: operator.gt,
    pb.Compare.LESS: operator.lt,
}

Plan = list[tuple[pb.RequestOp, "Branch | None"]]


class Branch:
    """The operations of a transaction that run, after its comparisons.

    Nested transactions are decided at the same time, so that no comparison sees a write of its own transaction.
    """

    def __init__(self, request: pb.TxnRequest, draft: Draft) -> None:
        self.succeeded = all(holds(compare, draft) for compare in request.compare)
        chosen = request.success if self.succeeded else request.failure
        self.plan: Plan = [(op, _nested(op, draft)) for op in chosen]


def _nested(operation: pb.RequestOp, draft: Draft) -> Branch | None:
    return Branch(operation.request_txn, draft) if operation.WhichOneof("request") == "request_txn" else None


def holds(compare: pb.Compare, draft: Draft) -> bool:
    """Return True if every key satisfies the comparison; an absent key has zeros, and no value to compare."""
    kvs = [kv for key in draft.keys(compare.key, compare.range_end) if (kv := draft.get(key)) is not None]
    if not kvs:
        return compare.target != pb.Compare.VALUE and _compare(compare, ABSENT)
    return all(_compare(compare, kv) for kv in kvs)


def _compare(compare: pb.Compare, kv: KeyValue) -> bool:
    """As in etcd, an unknown result holds, and with an unknown target both sides are equal."""
    relation = RELATIONS.get(compare.result)
    return relation is None or relation(*_operands(compare, kv))


def _operands(compare: pb.Compare, kv: KeyValue) -> tuple[int | bytes, int | bytes]:
    match compare.target:
        case pb.Compare.VALUE:
            return kv.value, compare.value
        case pb.Compare.CREATE:
            return kv.create_revision, compare.create_revision
        case pb.Compare.MOD:
            return kv.mod_revision, compare.mod_revision
        case pb.Compare.LEASE:
            return kv.lease, compare.lease
        case pb.Compare.VERSION:
            return kv.version, compare.version
        case _:
            return 0, 0


def put(request: pb.PutRequest, draft: Draft) -> pb.PutResponse:
    """Evaluate a Put. Raises LeaseNotFound, KeyNotFound."""
    # Outside a transaction etcd checks the lease before the key; inside one, the key before the lease.
    if request.lease and draft.lease(request.lease) is None:
        raise LeaseNotFound()
    response = pb.PutResponse()
    _put_in_txn(request, draft, response)
    return response


def _put_in_txn(request: pb.PutRequest, draft: Draft, response: pb.PutResponse) -> None:
    value, lease = request.value, request.lease
    if request.ignore_value or request.ignore_lease:
        before = draft.get(request.key)
        if before is None:
            raise KeyNotFound()
        value = before.value if request.ignore_value else value
        lease = before.lease if request.ignore_lease else lease
    change = draft.put(request.key, value, lease)
    response.header.revision = draft.current
    if request.prev_kv and change.previous:
        response.prev_kv.CopyFrom(to_wire(change.previous))


def delete_range(request: pb.DeleteRangeRequest, draft: Draft) -> pb.DeleteRangeResponse:
    """Evaluate a DeleteRange; a range without keys is no error."""
    changes = [change for key in draft.keys(request.key, request.range_end) if (change := draft.delete(key))]
    response = pb.DeleteRangeResponse(header=pb.ResponseHeader(revision=draft.current), deleted=len(changes))
    if request.prev_kv:
        response.prev_kvs.extend(to_wire(change.previous) for change in changes if change.previous)
    return response


def range_in_txn(request: pb.RangeRequest, draft: Draft, history: History) -> pb.RangeResponse:
    """Evaluate a Range of a transaction: it sees what that has written, unless it names a revision, which is older.

    Raises Compacted, FutureRevision.
    """
    view: KeyView = draft
    if request.revision > 0 and not request.revision == draft.revision == draft.current:
        if request.revision > draft.index.revision:
            raise FutureRevision()
        if request.revision < draft.compacted:
            raise Compacted()
        view = history(request.revision)
    response = evaluate_range(request, view)
    response.header.revision = draft.current
    return response


def txn(request: pb.TxnRequest, draft: Draft, history: History) -> pb.TxnResponse:
    """Evaluate a transaction: its compares, then the operations of the branch that they choose."""
    response = pb.TxnResponse()
    _run(Branch(request, draft), draft, history, response)
    response.header.revision = draft.current
    return response


def _run(branch: Branch, draft: Draft, history: History, response: pb.TxnResponse) -> None:
    """Fill the response in place: parts that are made first would be copied into it."""
    response.header.SetInParent()  # and stays empty: etcd sets it for the outermost transaction only
    response.succeeded = branch.succeeded
    for operation, nested in branch.plan:
        _execute(operation, nested, draft, history, response.responses.add())


def _execute(
    operation: pb.RequestOp, nested: Branch | None, draft: Draft, history: History, response: pb.ResponseOp
) -> None:
    if nested is not None:
        _run(nested, draft, history, response.response_txn)
        return
    match operation.WhichOneof("request"):
        case "request_range":
            response.response_range.CopyFrom(range_in_txn(operation.request_range, draft, history))
        case "request_put":
            _put_in_txn(operation.request_put, draft, response.response_put)
        case _:
            response.response_delete_range.CopyFrom(delete_range(operation.request_delete_range, draft))


def compact(revision: int, draft: Draft) -> None:
    """Compact to `revision`; raise Compacted or FutureRevision if that is not possible."""
    if revision > draft.revision:
        raise FutureRevision()
    if revision <= draft.compacted:
        raise Compacted()
    draft.compacted = revision
