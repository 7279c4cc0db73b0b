"""The replicated state of the model: what all members agree on, in one order.

Requests are evaluated by the embedded store's own pure functions, which tests compare with a real etcd request by
request. History is a list, so a past revision is a prefix of it.
"""

from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from typing import Any

from google.protobuf.message import Message

from actors.store.model.errors import Compacted, FutureRevision, NoSpace
from actors.store.model.types import FOREVER, Commit, KeyChange, LeaseRecord
from actors.store.mvcc.index import Draft, KeyIndex
from actors.store.mvcc.lease_table import LeaseTable
from actors.store.mvcc.operations import check_range, compact, delete_range, evaluate_range, put, txn
from actors.store.mvcc.request_checks import check_delete, check_put, check_txn
from actors.store.rpc.lease import grant, revoke
from protocols.etcd.types import KeyValue
from protocols.wire import etcd_pb2 as pb

TXN_OPERATIONS = 128
MIN_TTL_S = 2
Operation = Callable[[Draft], Any]


class EtcdState:
    """`now` is the world's time: leases are the leader's business."""

    def __init__(self) -> None:
        self.index, self.leases = KeyIndex(), LeaseTable()
        self.log: list[KeyChange] = []
        """Every change, compacted ones included: `index.compacted` decides what is served."""
        self.full = False
        """True while the alarm NOSPACE is raised."""
        self._granted: dict[int, LeaseRecord] = {}
        """Every lease that ever was: a backup may have one that has ended since."""

    @property
    def revision(self) -> int:
        return self.index.revision

    def apply(self, operation: Operation, now: float) -> tuple[Any, Commit]:
        """Apply an operation and return its answer. Raises StoreError: nothing has changed."""
        draft = Draft(self.index, self.leases)
        with draft.operation():
            answer = operation(draft)
        commit = draft.finish()
        self.index.apply(commit.changes, draft.revision, commit.compacted)
        self.leases.apply(commit, now)
        self.log += commit.changes
        self._granted.update({record.id: record for record in commit.leases})
        return answer, commit

    def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        """Answer a range at the current or a past revision. Raises Compacted, FutureRevision."""
        check_range(request)
        if request.revision > self.revision:
            raise FutureRevision()
        if 0 < request.revision < self.index.compacted:
            raise Compacted()
        return evaluate_range(request, self.past(request.revision) if request.revision > 0 else self.index)

    def past(self, revision: int) -> KeyIndex:
        if revision == self.revision:
            return self.index
        found = KeyIndex()
        found.apply(self.log[: self._end(revision)], revision, 0)
        return found

    def changes(self, after: int, until: int) -> list[KeyChange]:
        """Return the changes of revisions after the first, up to the second."""
        return self.log[self._end(after) : self._end(until)]

    def restore(self, revision: int, bump: int, now: float) -> None:
        """Go back to a past revision, as from a backup; with `bump` as `etcdutl --bump-revision --mark-compacted`."""
        compacted = revision + bump if bump else min(self.index.compacted, revision)
        del self.log[self._end(revision) :]
        self.index = KeyIndex()
        self.index.apply(self.log, revision + bump, compacted)
        self._lease(now, {kv.lease for kv in self._live() if kv.lease})

    def promote(self, now: float) -> None:
        """Give every lease its whole time again, as a new leader does."""
        self._lease(now, set(self.leases.ids()))

    def _lease(self, now: float, ids: set[int]) -> None:
        self.leases = LeaseTable()
        self.leases.load([self._granted[id] for id in sorted(ids)], self._live(), now)

    def _live(self) -> list[KeyValue]:
        return [kv for key in self.index.keys(b"\0", FOREVER) if (kv := self.index.get(key))]

    def _end(self, revision: int) -> int:
        return bisect_right(self.log, revision, key=lambda change: change.revision)


def write(state: EtcdState, method: str, body: bytes, lease: int) -> Operation:
    """Return the operation of a request. `lease` is the id of one that is granted. Raises StoreError."""
    match method:
        case "KV/Put":
            request = pb.PutRequest.FromString(body)
            check_put(request)
            return partial(put, request)
        case "KV/DeleteRange":
            deletion = pb.DeleteRangeRequest.FromString(body)
            check_delete(deletion)
            return partial(delete_range, deletion)
        case "KV/Txn":
            transaction = pb.TxnRequest.FromString(body)
            check_txn(transaction, TXN_OPERATIONS)
            return lambda draft: txn(transaction, draft, state.past)
        case "KV/Compact":
            return partial(_compact, pb.CompactionRequest.FromString(body).revision)
        case "Lease/LeaseGrant":
            return partial(_grant, pb.LeaseGrantRequest.FromString(body), lease)
        case "Lease/LeaseRevoke":
            return partial(_revoke, pb.LeaseRevokeRequest.FromString(body).ID)
        case _:
            raise NotImplementedError(f"the model of etcd has no method {method}; add it to {__name__}")


def check_space(state: EtcdState, method: str, body: bytes) -> None:
    """Raise NoSpace as etcd does with an alarm: for whatever may put, before it is evaluated."""
    if not state.full:
        return
    if method in ("KV/Put", "Lease/LeaseGrant"):
        raise NoSpace()
    if method == "KV/Txn":
        request = pb.TxnRequest.FromString(body)
        if any(each.WhichOneof("request") == "request_put" for each in (*request.success, *request.failure)):
            raise NoSpace()


def _compact(revision: int, draft: Draft) -> Message:
    compact(revision, draft)
    return pb.CompactionResponse(header=pb.ResponseHeader(revision=draft.revision))


def _grant(request: pb.LeaseGrantRequest, id: int, draft: Draft) -> Message:
    ttl = max(request.TTL, MIN_TTL_S)
    revision = grant(LeaseRecord(request.ID or id, ttl, 0.0), draft)
    return pb.LeaseGrantResponse(header=pb.ResponseHeader(revision=revision), ID=request.ID or id, TTL=ttl)


def _revoke(id: int, draft: Draft) -> Message:
    return pb.LeaseRevokeResponse(header=pb.ResponseHeader(revision=revoke(id, draft)))
