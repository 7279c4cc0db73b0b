"""Clients that write and read a few keys of an etcd API at random, and note what they asked, were told, and when."""

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Any

import grpc

from protocols.wire import etcd_pb2 as pb
from protocols.wire import mvcc_pb2
from tests.support.linear import Operation, State
from tests.support.store_lab import Api

KEYS = [b"lin/a", b"lin/b", b"lin/c"]
PREFIX, END = b"lin/", b"lin0"
PAIR = (b"lin/left", b"lin/right")
TIMEOUT = 0.5
LOST = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
"""Codes after which a write may have happened."""
KINDS = ["put"] * 3 + ["get"] * 4 + ["cas"] * 3 + ["delete", "release", "pair"]


@dataclass
class Told:
    """An acknowledged answer: at this revision these keys had these values (None = absent)."""

    called: float
    returned: float
    revision: int
    values: dict[bytes, State]
    write: bool


@dataclass
class Notes:
    """What all clients saw."""

    operations: dict[bytes, list[Operation]] = field(default_factory=lambda: {key: [] for key in KEYS})
    told: list[Told] = field(default_factory=list)
    lost: int = 0


class Client:
    """One connection, one operation at a time."""

    def __init__(self, name: str, target: str, notes: Notes, seed: int) -> None:
        self._name, self._notes = name, notes
        self._api = Api(target, timeout=TIMEOUT)
        self._random = random.Random(f"{seed} {name}")
        self._count = 0
        self._known: dict[bytes, mvcc_pb2.KeyValue | None] = {}

    async def run(self, until: asyncio.Event) -> None:
        while not until.is_set():
            kind, key = self._random.choice(KINDS), self._random.choice(KEYS)
            await getattr(self, f"_{kind}")(key)
        await self._api.close()

    def _value(self) -> bytes:
        self._count += 1
        return f"{self._name}:{self._count}".encode()

    async def _ask(self, call: str, request: Any) -> tuple[Any, float, float]:
        """The answer, None when it was lost; when it was asked for and when it came."""
        called = time.monotonic()
        try:
            answer = await getattr(self._api, call)(request)
        except grpc.aio.AioRpcError as error:
            if error.code() not in LOST and "deadline exceeded" not in (error.details() or ""):
                raise
            self._notes.lost += 1
            await asyncio.sleep(0.02)
            return None, called, float("inf")
        return answer, called, time.monotonic()

    def _note(self, key: bytes, operation: Operation, answer: Any, now: State = None, write: bool = True) -> None:
        self._notes.operations[key].append(operation)
        if answer is not None:
            told = Told(operation.called, operation.returned, answer.header.revision, {key: now}, write)
            self._notes.told.append(told)

    async def _put(self, key: bytes, lease: int = 0) -> bytes:
        value = self._value()
        answer, called, returned = await self._ask("put", pb.PutRequest(key=key, value=value, lease=lease))
        self._note(key, Operation("put", called, returned, value), answer, value)
        return value

    async def _get(self, key: bytes) -> None:
        answer, called, returned = await self._ask("range", pb.RangeRequest(key=key))
        if answer is not None:
            seen = self._learn(key, answer)
            self._note(key, Operation("get", called, returned, seen=seen), answer, seen, write=False)

    def _learn(self, key: bytes, answer: pb.RangeResponse) -> State:
        self._known[key] = found = answer.kvs[0] if answer.kvs else None
        return found.value if found else None

    async def _cas(self, key: bytes) -> None:
        known, value = self._known.get(key), self._value()
        unchanged = pb.Compare(key=key, target=pb.Compare.MOD, mod_revision=known.mod_revision if known else 0)
        write = pb.RequestOp(request_put=pb.PutRequest(key=key, value=value))
        read = pb.RequestOp(request_range=pb.RangeRequest(key=key))
        asked = pb.TxnRequest(compare=[unchanged], success=[write], failure=[read])
        answer, called, returned = await self._ask("txn", asked)
        expected, done = known.value if known else None, answer is not None and answer.succeeded
        seen = None if answer is None or done else self._learn(key, answer.responses[0].response_range)
        operation = Operation("cas", called, returned, value, expected, seen, ok=done)
        self._note(key, operation, answer, value if done else seen, write=done)

    async def _delete(self, key: bytes) -> None:
        answer, called, returned = await self._ask("delete_range", pb.DeleteRangeRequest(key=key, prev_kv=True))
        seen = answer.prev_kvs[0].value if answer is not None and answer.prev_kvs else None
        self._note(key, Operation("delete", called, returned, seen=seen), answer, None, write=seen is not None)

    async def _release(self, key: bytes) -> None:
        """A put under a lease of its own, which is revoked."""
        granted, *_ = await self._ask("grant", pb.LeaseGrantRequest(TTL=600))
        if granted is not None:
            value = await self._put(key, granted.ID)
            _, called, returned = await self._ask("revoke", pb.LeaseRevokeRequest(ID=granted.ID))
            self._notes.operations[key].append(Operation("release", called, returned, value))

    async def _pair(self, key: bytes) -> None:
        """Two keys that are always equal."""
        value = self._value()
        puts = [pb.RequestOp(request_put=pb.PutRequest(key=each, value=value)) for each in PAIR]
        answer, called, returned = await self._ask("txn", pb.TxnRequest(success=puts))
        if answer is not None:
            self._notes.told.append(Told(called, returned, answer.header.revision, dict.fromkeys(PAIR, value), True))


class Follower:
    """One watch from the first revision on, opened again where it broke."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.events: list[mvcc_pb2.Event] = []
        self.breaks = 0
        self._told = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            api = Api(self._target)
            try:
                await self._follow(api)
            except grpc.aio.AioRpcError:
                self.breaks += 1
            finally:
                await api.close()

    async def _follow(self, api: Api) -> None:
        next_revision = self.events[-1].kv.mod_revision + 1 if self.events else 1
        create = pb.WatchCreateRequest(key=PREFIX, range_end=END, start_revision=next_revision, prev_kv=True)
        stream = api.watch()
        await stream.write(pb.WatchRequest(create_request=create))
        while isinstance(response := await stream.read(), pb.WatchResponse):
            assert not response.canceled, response
            self.events.extend(response.events)
            self._told.set()

    async def reach(self, revision: int) -> None:
        """Until the watch has told it, 60 s at most."""
        async with asyncio.timeout(60):
            while not self.events or self.events[-1].kv.mod_revision < revision:
                self._told.clear()
                await self._told.wait()
