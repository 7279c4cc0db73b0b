"""The etcd v3 API as async methods: used against our store and against clusters."""

from collections.abc import Awaitable

from protocols.etcd import guarded
from protocols.etcd.calls import Answer, ask, call
from protocols.etcd.errors import EtcdError
from protocols.etcd.members import Members, Method
from protocols.etcd.options import EtcdOptions
from protocols.etcd.types import (
    ALONE,
    Companions,
    Granted,
    KeyValue,
    Ranged,
    StoreStatus,
    Written,
    key_value,
    prefix_end,
)
from protocols.etcd.watch import Watch
from protocols.wire import etcd_pb2 as pb

ALL_MEMBERS = 3.0
"""Seconds for all members together to report their status."""


class EtcdClient:
    """`client = EtcdClient(options); await client.start(); ...; await client.close()`.

    Every call has a deadline (`timeout`, or that of the options) and raises EtcdError. It waits for the connection
    within the deadline. Reads and guarded writes are repeated when the connection breaks under them, at the next member
    of a cluster; put and compact are not, since they may have happened.
    """

    def __init__(self, options: EtcdOptions) -> None:
        self._options = options
        self._members: Members | None = None

    async def start(self) -> None:
        """Connects in the background. Raises BadEndpoint."""
        members = self._members = Members(self._options)
        members.start()
        self._range = Method(members, "KV/Range", pb.RangeResponse)
        self._put = Method(members, "KV/Put", pb.PutResponse)
        self._txn = Method(members, "KV/Txn", pb.TxnResponse)
        self._compact = Method(members, "KV/Compact", pb.CompactionResponse)
        self._grant = Method(members, "Lease/LeaseGrant", pb.LeaseGrantResponse)
        self._status = Method(members, "Maintenance/Status", pb.StatusResponse)
        self._watch = Method(members, "Watch/Watch", pb.WatchResponse, stream=True)

    async def close(self) -> None:
        if self._members is not None:
            await self._members.close()
            self._members = None

    def _timeout(self, timeout: float | None) -> float:
        return self._options.timeout if timeout is None else timeout

    async def ranged(self, request: pb.RangeRequest, timeout: float | None = None) -> Ranged:
        """Any range. Raises Compacted, FutureRevision when `revision` is not served."""
        answer: pb.RangeResponse = (await call(self._range, request, self._timeout(timeout), retry=True)).message
        return Ranged([key_value(kv) for kv in answer.kvs], answer.more, answer.count, answer.header.revision)

    async def get(self, key: bytes, revision: int = 0, timeout: float | None = None) -> tuple[KeyValue | None, int]:
        """A key and the store's revision; linearizable."""
        found = await self.ranged(pb.RangeRequest(key=key, revision=revision), timeout)
        return (found.kvs[0] if found.kvs else None), found.revision

    async def range(
        self, prefix: bytes, start: bytes = b"", limit: int = 0, revision: int = 0, timeout: float | None = None
    ) -> Ranged:
        """Keys below `prefix`, from `start` on (itself included), in key order; linearizable when `revision` is 0."""
        request = pb.RangeRequest(
            key=start or prefix or b"\0", range_end=prefix_end(prefix), limit=limit, revision=revision
        )
        return await self.ranged(request, timeout)

    async def current_revision(self, prefix: bytes = b"\0", timeout: float | None = None) -> int:
        """The store's revision now: a linearizable read of next to nothing."""
        request = pb.RangeRequest(key=prefix, limit=1, keys_only=True, range_end=prefix_end(prefix))
        return (await self.ranged(request, timeout)).revision

    async def put(self, key: bytes, value: bytes, lease: int = 0, timeout: float | None = None) -> int:
        """Unguarded; the new revision. Raises Unavailable when it may or may not have happened."""
        request = pb.PutRequest(key=key, value=value, lease=lease)
        answer = await call(self._put, request, self._timeout(timeout), retry=False)
        return int(answer.message.header.revision)

    async def create_if_absent(
        self, key: bytes, value: bytes, lease: int = 0, timeout: float | None = None, also: Companions = ALONE
    ) -> Written:
        """Not ok when the key exists, or one of the companions to add."""
        answer = await self._guarded(guarded.accompany(guarded.create(key, value, lease), also), timeout)
        return guarded.put_result(answer.message, value, answer.retried, 0)

    async def create_all_if_absent(self, pairs: list[tuple[bytes, bytes]], timeout: float | None = None) -> bool:
        """False, and nothing written, when one of the keys exists; also after a first try whose answer was lost."""
        return bool((await self._guarded(guarded.create_all(pairs), timeout)).message.succeeded)

    async def update_if_revision(
        self,
        key: bytes,
        value: bytes,
        revision: int,
        lease: int = 0,
        timeout: float | None = None,
        also: Companions = ALONE,
    ) -> Written:
        """Not ok when the key's mod_revision is another, it is absent, or one of the companions to add exists."""
        answer = await self._guarded(guarded.accompany(guarded.update(key, value, revision, lease), also), timeout)
        return guarded.put_result(answer.message, value, answer.retried, revision)

    async def delete_if_revision(
        self, key: bytes, revision: int, timeout: float | None = None, also: Companions = ALONE
    ) -> Written:
        """Not ok when the key's mod_revision is another, or it is absent."""
        answer = await self._guarded(guarded.accompany(guarded.delete(key, revision), also), timeout)
        return guarded.delete_result(answer.message, answer.retried)

    def _guarded(self, request: pb.TxnRequest, timeout: float | None) -> Awaitable[Answer]:
        return call(self._txn, request, self._timeout(timeout), retry=True)

    async def txn(self, request: pb.TxnRequest, retry: bool = False, timeout: float | None = None) -> pb.TxnResponse:
        """Any transaction; `retry` only when its comparisons make a second run harmless."""
        message: pb.TxnResponse = (await call(self._txn, request, self._timeout(timeout), retry)).message
        return message

    async def compact(self, revision: int, timeout: float | None = None) -> None:
        await call(self._compact, pb.CompactionRequest(revision=revision), self._timeout(timeout), retry=False)

    def watch(
        self, prefix: bytes, start_revision: int = 0, prev_kv: bool = True, progress_notify: bool = True
    ) -> Watch:
        """Watch every key below `prefix` from a revision on (0 = from now); see Watch."""
        request = pb.WatchCreateRequest(
            key=prefix or b"\0",
            range_end=prefix_end(prefix),
            start_revision=start_revision,
            prev_kv=prev_kv,
            progress_notify=progress_notify,
            fragment=True,
        )
        return Watch(self._watch, request, self._options.timeout)

    async def lease_grant(self, ttl: int, timeout: float | None = None) -> Granted:
        """Grant a lease; repeated when the connection breaks, since an unused lease expires by itself."""
        answer = await call(self._grant, pb.LeaseGrantRequest(TTL=ttl), self._timeout(timeout), retry=True)
        return Granted(answer.message.ID, answer.message.TTL)

    async def status(self, timeout: float | None = None) -> StoreStatus:
        """Return the status of the member in use."""
        return _status((await call(self._status, pb.StatusRequest(), self._timeout(timeout), retry=True)).message)

    async def statuses(self) -> list[StoreStatus]:
        """Return the status of every member that answers soon; raises the last error when none does."""
        timeout = ALL_MEMBERS / len(self._options.endpoints)
        found: list[StoreStatus] = []
        failure: EtcdError | None = None
        for member in range(len(self._options.endpoints)):
            try:
                found.append(_status(await ask(self._status, member, pb.StatusRequest(), timeout)))
            except EtcdError as error:
                failure = error
        if failure and not found:
            raise failure
        return found


def _status(answer: pb.StatusResponse) -> StoreStatus:
    return StoreStatus(answer.version, answer.header.revision, answer.dbSize, tuple(answer.errors))
