"""The etcd v3 API as async methods: used against our store and against clusters."""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

import grpc
from google.protobuf.message import Message

from protocols.etcd import guarded
from protocols.etcd.errors import DeadlineExceeded, EtcdError, NotSent, OutcomeUnknown, Unavailable, etcd_error
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
from protocols.process.rates import backoff_delay
from protocols.wire import etcd_pb2 as pb

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5
FIRST_PART = 1 / 6
"""A member of several that is silent for this part of a repeatable call's time is left for the next one, which gets
twice as long: what a member took from us before the leader died is lost without a word."""


async def call(method: Method, request: Message, timeout: float, retry: bool) -> Any:
    """Return the answer. Raises EtcdError.

    A call waits for the connection inside its deadline, also when a member did not take it. `retry` also repeats one
    that was sent; without it such a one, a write, ends with OutcomeUnknown.
    """
    members, several = method.members, method.members.several
    deadline = monotonic() + timeout
    patience = timeout * FIRST_PART if retry and several else timeout
    tries = 0
    while True:
        tries += 1
        member = members.at_hand
        if member is None:
            member = await members.connected(max(0.001, deadline - monotonic()))
        left = max(0.001, min(deadline - monotonic(), patience))
        patience *= 2
        try:
            return await method.stub(member)(request, timeout=left, wait_for_ready=not several)
        except grpc.aio.AioRpcError as failure:
            error = members.blamed(member, etcd_error(failure))
        pause = backoff_delay(tries, FIRST_PAUSE, LONGEST_PAUSE)
        left = deadline - monotonic() - pause
        if left <= 0 or not _worth_another(error, retry, several):
            raise _without_answer(error, retry)
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))


async def ask(method: Method, member: int, request: Message, timeout: float) -> Any:
    """Try a call once at one member, within the timeout; connects if nobody has called this member yet."""
    members, deadline = method.members, monotonic() + timeout
    if members.several:
        await members.channels[member].stands(timeout)
    left = max(0.001, deadline - monotonic())
    try:
        return await method.stub(member)(request, timeout=left, wait_for_ready=not members.several)
    except grpc.aio.AioRpcError as failure:
        raise members.blamed(member, etcd_error(failure)) from None


def _worth_another(error: EtcdError, retry: bool, several: bool) -> bool:
    if isinstance(error, NotSent):
        return True
    return retry and (type(error) is Unavailable or (several and type(error) is DeadlineExceeded))


def _without_answer(error: EtcdError, retry: bool) -> EtcdError:
    if retry or isinstance(error, NotSent) or not isinstance(error, Unavailable):
        return error
    return OutcomeUnknown(error)


ALL_MEMBERS = 3.0
"""Seconds for all members together to report their status."""


class EtcdClient:
    """`client = EtcdClient(options); await client.start(); ...; await client.close()`.

    Every call has a deadline (`timeout`, or that of the options) and raises EtcdError. It waits for the connection
    within the deadline. Reads are repeated when the connection breaks under them, at the next member of a cluster. A
    write that was sent is never sent again, since it may have happened: a guarded one whose answer is lost returns its
    result if a read proves it, and raises OutcomeUnknown otherwise, as every other one does.
    """

    def __init__(self, options: EtcdOptions) -> None:
        self._options = options
        self._members: Members | None = None

    async def start(self) -> None:
        """Connect in the background. Raises BadEndpoint."""
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
        """Return a range. Raises Compacted or FutureRevision if `revision` is not served."""
        answer: pb.RangeResponse = await call(self._range, request, self._timeout(timeout), retry=True)
        return Ranged([key_value(kv) for kv in answer.kvs], answer.more, answer.count, answer.header.revision)

    async def get(self, key: bytes, revision: int = 0, timeout: float | None = None) -> tuple[KeyValue | None, int]:
        """Return a key, None if it does not exist, and the store's revision; linearizable."""
        response = await self.ranged(pb.RangeRequest(key=key, revision=revision), timeout)
        return (response.kvs[0] if response.kvs else None), response.revision

    async def range(
        self, prefix: bytes, start: bytes = b"", limit: int = 0, revision: int = 0, timeout: float | None = None
    ) -> Ranged:
        """Return the keys below `prefix` from `start` on (included), in key order; linearizable if `revision` is 0."""
        request = pb.RangeRequest(
            key=start or prefix or b"\0", range_end=prefix_end(prefix), limit=limit, revision=revision
        )
        return await self.ranged(request, timeout)

    async def current_revision(self, prefix: bytes = b"\0", timeout: float | None = None) -> int:
        """Return the store's revision by a linearizable read of next to nothing."""
        request = pb.RangeRequest(key=prefix, limit=1, keys_only=True, range_end=prefix_end(prefix))
        return (await self.ranged(request, timeout)).revision

    async def put(self, key: bytes, value: bytes, lease: int = 0, timeout: float | None = None) -> int:
        """Write without a guard; return the new revision. Raises OutcomeUnknown if it may have been applied."""
        request = pb.PutRequest(key=key, value=value, lease=lease)
        answer = await call(self._put, request, self._timeout(timeout), retry=False)
        return int(answer.header.revision)

    async def create_if_absent(
        self, key: bytes, value: bytes, lease: int = 0, timeout: float | None = None, also: Companions = ALONE
    ) -> Written:
        """Create a key and its companions; the result is not ok if one of them exists."""
        request = guarded.accompany(guarded.create(key, value, lease), also)
        return await self._write(request, guarded.put_result, partial(guarded.own_put, value=value, guard=0), timeout)

    async def create_all_if_absent(self, pairs: list[tuple[bytes, bytes]], timeout: float | None = None) -> bool:
        """Create all keys; return False and write nothing if one of them exists."""
        return bool((await self.txn(guarded.create_all(pairs), timeout)).succeeded)

    async def update_if_revision(
        self,
        key: bytes,
        value: bytes,
        revision: int,
        lease: int = 0,
        timeout: float | None = None,
        also: Companions = ALONE,
    ) -> Written:
        """Replace the value of a key.

        The result is not ok if the key's mod_revision differs, it is absent, one of the companions to add exists, or
        one that is held does not stand at its revision.
        """
        request = guarded.accompany(guarded.update(key, value, revision, lease), also)
        own = partial(guarded.own_put, value=value, guard=revision)
        return await self._write(request, guarded.put_result, own, timeout)

    async def delete_if_revision(
        self, key: bytes, revision: int, timeout: float | None = None, also: Companions = ALONE
    ) -> Written:
        """Delete a key; the result is not ok if its mod_revision differs, or it is absent."""
        request = guarded.accompany(guarded.delete(key, revision), also)
        return await self._write(request, guarded.delete_result, guarded.own_delete, timeout)

    async def _write(
        self,
        request: pb.TxnRequest,
        result: Callable[[pb.TxnResponse], Written],
        own: Callable[[KeyValue | None, int], Written | None],
        timeout: float | None,
    ) -> Written:
        """Send a guarded write once. When its answer is lost, `own` returns the result if a read proves one."""
        timeout = self._timeout(timeout)
        deadline = monotonic() + timeout
        try:
            return result(await self.txn(request, timeout))
        except OutcomeUnknown:
            proven = await self._proven(request.compare[0].key, own, deadline - monotonic())
            if proven is None:
                raise
            return proven

    async def _proven(
        self, key: bytes, own: Callable[[KeyValue | None, int], Written | None], timeout: float
    ) -> Written | None:
        try:
            return own(*await self.get(key, timeout=timeout)) if timeout > 0 else None
        except EtcdError:
            return None

    async def txn(self, request: pb.TxnRequest, timeout: float | None = None) -> pb.TxnResponse:
        """Send a transaction. Raises OutcomeUnknown if it may have been applied."""
        message: pb.TxnResponse = await call(self._txn, request, self._timeout(timeout), retry=False)
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
        return Granted(answer.ID, answer.TTL)

    async def status(self, timeout: float | None = None) -> StoreStatus:
        """Return the status of the member in use."""
        return _status(await call(self._status, pb.StatusRequest(), self._timeout(timeout), retry=True))

    async def statuses(self) -> list[StoreStatus]:
        """Return the status of every member that answers soon; raises the last error when none does."""
        timeout = ALL_MEMBERS / len(self._options.endpoints)
        store_statuses: list[StoreStatus] = []
        failure: EtcdError | None = None
        for member in range(len(self._options.endpoints)):
            try:
                store_statuses.append(_status(await ask(self._status, member, pb.StatusRequest(), timeout)))
            except EtcdError as error:
                failure = error
        if failure and not store_statuses:
            raise failure
        return store_statuses


def _status(answer: pb.StatusResponse) -> StoreStatus:
    return StoreStatus(answer.version, answer.header.revision, answer.dbSize, tuple(answer.errors))
