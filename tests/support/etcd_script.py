"""Random requests of the etcd API: the same from the same seed, so that two stores can be asked them side by side."""

import random
from typing import Any

import grpc

from protocols.wire import etcd_pb2 as pb
from tests.support.store_lab import Api

KEYS = [b"s/a", b"s/aa", b"s/b", b"s/b/1", b"s/b/2", b"s/c", b"s/d"]
ENDS = [b"", b"", b"", b"\0", b"s0", b"s/b", b"s/c", b"s/b/2", b"s/a"]
LEASES = [0, 0, 0, 0, 101, 102, 103]
NEVER = 999_999
FILTERS = [pb.WatchCreateRequest.NOPUT, pb.WatchCreateRequest.NODELETE]
VALUES = [b"", b"1", b"2", b"10", b"x" * 40]
OPERAND = {
    pb.Compare.VERSION: "version",
    pb.Compare.CREATE: "create_revision",
    pb.Compare.MOD: "mod_revision",
    pb.Compare.VALUE: "value",
    pb.Compare.LEASE: "lease",
}


class Script:
    """Draws calls; `revision` is what the stores were at when the last answer came, so that revisions drawn exist."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.revision = 1

    def calls(self, count: int) -> list[str]:
        kinds = ["put"] * 6 + ["range"] * 6 + ["txn"] * 6 + ["delete_range"] * 2
        kinds += ["grant", "revoke", "time_to_live", "leases", "compact"]
        return self._random.choices(kinds, k=count)

    def request(self, kind: str) -> Any:
        return getattr(self, f"_{kind}")()

    def _some(self, values: list[Any]) -> Any:
        return self._random.choice(values)

    def _often(self, chance: float = 0.2) -> bool:
        return self._random.random() < chance

    def _revision(self) -> int:
        """0, or one of the past; now and then one that is not there."""
        if self._often(0.6):
            return 0
        return self._random.randint(max(1, self.revision - 30), self.revision + (2 if self._often(0.1) else 0))

    def _key(self) -> bytes:
        return b"" if self._often(0.02) else self._some(KEYS)

    def _put(self) -> pb.PutRequest:
        return pb.PutRequest(
            key=self._key(),
            value=self._some(VALUES),
            lease=NEVER if self._often(0.03) else self._some(LEASES),
            prev_kv=self._often(),
            ignore_value=self._often(0.1),
            ignore_lease=self._often(0.1),
        )

    def _range(self) -> pb.RangeRequest:
        bounds = ("min_mod_revision", "max_mod_revision", "min_create_revision", "max_create_revision")
        return pb.RangeRequest(
            key=self._key(),
            range_end=self._some(ENDS),
            limit=self._some([0, 0, 1, 2, 3, 100]),
            revision=self._revision(),
            sort_order=self._some(list(pb.RangeRequest.SortOrder.values())),
            sort_target=self._some(list(pb.RangeRequest.SortTarget.values())),
            serializable=self._often(),
            keys_only=self._often(),
            count_only=self._often(0.1),
            **{name: self._revision() for name in bounds if self._often(0.15)},
        )

    def _delete_range(self) -> pb.DeleteRangeRequest:
        return pb.DeleteRangeRequest(key=self._key(), range_end=self._some(ENDS), prev_kv=self._often(0.5))

    def _compare(self) -> pb.Compare:
        target = self._some(list(OPERAND))
        number = self._some([0, 1, 2, self.revision, self.revision - 1, 101])
        operand = {OPERAND[target]: self._some(VALUES) if target == pb.Compare.VALUE else number}
        return pb.Compare(
            key=self._key(),
            target=target,
            result=self._some(list(pb.Compare.CompareResult.values())),
            range_end=self._some(ENDS) if self._often() else b"",
            **(operand if self._often(0.9) else {}),
        )

    def _op(self, depth: int) -> pb.RequestOp:
        kind = self._some(["put", "put", "range", "delete_range", "txn" if depth < 2 else "put"])
        if kind == "txn":
            return pb.RequestOp(request_txn=self._txn(depth + 1))
        made = self.request(kind)
        if kind == "range" and self._often(0.9):
            made.revision = 0
        if kind == "delete_range" and made.range_end == b"\0":
            made.range_end = b"s0"  # etcd overlooks that such a range overlaps a put; this store refuses it
        return pb.RequestOp(**{f"request_{kind}": made})

    def _txn(self, depth: int = 0) -> pb.TxnRequest:
        return pb.TxnRequest(
            compare=[self._compare() for _ in range(self._some([0, 1, 1, 2]))],
            success=[self._op(depth) for _ in range(self._some([0, 1, 1, 2, 3]))],
            failure=[self._op(depth) for _ in range(self._some([0, 1, 1, 2]))],
        )

    def _compact(self) -> pb.CompactionRequest:
        """Not at 0, nor below: there an etcd that was never compacted says yes, once."""
        revision = max(1, self.revision - self._random.randint(10, 40))
        return pb.CompactionRequest(revision=revision, physical=self._often())

    def _grant(self) -> pb.LeaseGrantRequest:
        return pb.LeaseGrantRequest(ID=self._some(LEASES[4:]), TTL=self._some([600, 900, 9_000_000_001]))

    def _revoke(self) -> pb.LeaseRevokeRequest:
        return pb.LeaseRevokeRequest(ID=self._some(LEASES[4:]))

    def _time_to_live(self) -> pb.LeaseTimeToLiveRequest:
        return pb.LeaseTimeToLiveRequest(ID=self._some(LEASES[4:]), keys=self._often(0.7))

    def _leases(self) -> pb.LeaseLeasesRequest:
        return pb.LeaseLeasesRequest()

    def watch(self) -> pb.WatchCreateRequest:
        """A watch of the past, of now or of a moment that comes; some of them of compacted revisions or no key."""
        return pb.WatchCreateRequest(
            key=self._key(),
            range_end=self._some(ENDS),
            start_revision=self._some([0, self._revision(), self._random.randint(1, self.revision + 3)]),
            prev_kv=self._often(0.5),
            fragment=self._often(),
            filters=self._some([[], [], *([kind] for kind in FILTERS), FILTERS]),
        )


async def answer(api: Api, kind: str, request: Any) -> Any:
    """The answer without what differs from store to store; of a refusal its code and text."""
    try:
        message = await getattr(api, kind)(request)
    except grpc.aio.AioRpcError as error:
        # Of two faults of one transaction either may be told.
        return "refused" if kind == "txn" else (error.code().name, error.details())
    for field in ("cluster_id", "member_id", "raft_term"):
        message.header.ClearField(field)
    if kind == "time_to_live":
        message.TTL = min(message.TTL, 1)  # a second may pass between two stores
        _sort(message.keys, sorted(message.keys))
    if kind == "leases":
        _sort(message.leases, sorted(message.leases, key=lambda lease: lease.ID))
    return message


def _sort(field: Any, ordered: list[Any]) -> None:
    del field[:]
    field.extend(ordered)
