"""Pure evaluation of writes on a draft: put, delete, transactions with their comparisons."""

import operator
from collections.abc import Callable

from actors.store.draft import Draft
from actors.store.errors import Compacted, FutureRevision, KeyNotFound, LeaseNotFound
from actors.store.ranges import View, evaluate_range, to_wire
from actors.store.types import KeyValue
from protocols.wire import etcd_pb2 as pb

History = Callable[[int], View]
"""Keys as they stood at a committed revision."""

ABSENT = KeyValue(b"", b"", 0, 0, 0)
RELATIONS: dict[int, Callable[[int | bytes, int | bytes], bool]] = {
    pb.Compare.EQUAL: operator.eq,
    pb.Compare.NOT_EQUAL: operator.ne,
    pb.Compare.GREATER: operator.gt,
    pb.Compare.LESS: operator.lt,
}

Plan = list[tuple[pb.RequestOp, "Branch | None"]]


class Branch:
    """A transaction whose comparisons are done: which operations run. Nested ones are decided at the same time,
    so that no comparison sees a write of its own transaction."""

    def __init__(self, request: pb.TxnRequest, draft: Draft) -> None:
        self.succeeded = all(holds(compare, draft) for compare in request.compare)
        chosen = request.success if self.succeeded else request.failure
        self.plan: Plan = [(op, _nested(op, draft)) for op in chosen]


def _nested(operation: pb.RequestOp, draft: Draft) -> Branch | None:
    return Branch(operation.request_txn, draft) if operation.WhichOneof("request") == "request_txn" else None


def holds(compare: pb.Compare, draft: Draft) -> bool:
    """Whether every key of the comparison satisfies it; an absent key has zeros, and no value to compare."""
    found = [kv for key in draft.keys(compare.key, compare.range_end) if (kv := draft.get(key)) is not None]
    if not found:
        return compare.target != pb.Compare.VALUE and _compare(compare, ABSENT)
    return all(_compare(compare, kv) for kv in found)


def _compare(compare: pb.Compare, kv: KeyValue) -> bool:
    relation = RELATIONS.get(compare.result)
    return relation is not None and relation(*_operands(compare, kv))


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
        case _:
            return kv.version, compare.version


def put(request: pb.PutRequest, draft: Draft) -> pb.PutResponse:
    """Raises LeaseNotFound, KeyNotFound: in this order, and in a transaction in the other one, as etcd does."""
    if request.lease and draft.lease(request.lease) is None:
        raise LeaseNotFound()
    return put_in_txn(request, draft)


def put_in_txn(request: pb.PutRequest, draft: Draft) -> pb.PutResponse:
    """Raises KeyNotFound, LeaseNotFound."""
    value, lease = request.value, request.lease
    if request.ignore_value or request.ignore_lease:
        before = draft.get(request.key)
        if before is None:
            raise KeyNotFound()
        value = before.value if request.ignore_value else value
        lease = before.lease if request.ignore_lease else lease
    change = draft.put(request.key, value, lease)
    response = pb.PutResponse(header=pb.ResponseHeader(revision=draft.current))
    if request.prev_kv and change.previous:
        response.prev_kv.CopyFrom(to_wire(change.previous))
    return response


def delete_range(request: pb.DeleteRangeRequest, draft: Draft) -> pb.DeleteRangeResponse:
    changes = [change for key in draft.keys(request.key, request.range_end) if (change := draft.delete(key))]
    response = pb.DeleteRangeResponse(header=pb.ResponseHeader(revision=draft.current), deleted=len(changes))
    if request.prev_kv:
        response.prev_kvs.extend(to_wire(change.previous) for change in changes if change.previous)
    return response


def range_in_txn(request: pb.RangeRequest, draft: Draft, history: History) -> pb.RangeResponse:
    """Raises Compacted, FutureRevision."""
    view: View = draft
    if request.revision > 0 and request.revision != draft.current:
        if request.revision > draft.index.revision:
            raise FutureRevision()
        if request.revision < draft.compacted:
            raise Compacted()
        view = history(request.revision)
    response = evaluate_range(request, view)
    response.header.revision = draft.current
    return response


def txn(request: pb.TxnRequest, draft: Draft, history: History) -> pb.TxnResponse:
    response = _run(Branch(request, draft), draft, history)
    response.header.revision = draft.current
    return response


def _run(branch: Branch, draft: Draft, history: History) -> pb.TxnResponse:
    """The header stays empty: etcd gives one to the outermost transaction only."""
    responses = [_execute(op, nested, draft, history) for op, nested in branch.plan]
    return pb.TxnResponse(header=pb.ResponseHeader(), succeeded=branch.succeeded, responses=responses)


def _execute(operation: pb.RequestOp, nested: Branch | None, draft: Draft, history: History) -> pb.ResponseOp:
    if nested is not None:
        return pb.ResponseOp(response_txn=_run(nested, draft, history))
    match operation.WhichOneof("request"):
        case "request_range":
            return pb.ResponseOp(response_range=range_in_txn(operation.request_range, draft, history))
        case "request_put":
            return pb.ResponseOp(response_put=put_in_txn(operation.request_put, draft))
        case _:
            return pb.ResponseOp(response_delete_range=delete_range(operation.request_delete_range, draft))
