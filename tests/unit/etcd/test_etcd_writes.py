"""A write that was sent is never sent again: a read proves it, or its outcome is not known."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from protocols.etcd.client import EtcdClient
from protocols.etcd.errors import NotSent, OutcomeUnknown
from protocols.etcd.options import EtcdOptions
from protocols.etcd.transport.connection_channel import LOST
from protocols.etcd.transport.frames import NOT_CONNECTED
from protocols.etcd.types import Written
from protocols.http2.frames import GOING_AWAY
from protocols.wire import etcd_pb2 as pb
from protocols.wire import mvcc_pb2
from protocols.wire.methods import rpc_error

Write = Callable[[EtcdClient], Awaitable[Any]]
UNKNOWN = f"{LOST}: whether the write took effect is not known"


class Store:
    """Loses the answer of each transaction with its next error, and has what a read finds."""

    def __init__(self, *errors: tuple[str, str], found: mvcc_pb2.KeyValue | None = None) -> None:
        self._errors, self._found = list(errors), found
        self.asked: list[str] = []
        self.open = True

    def unary_unary(self, path: str, **_: Any) -> Any:
        async def call(request: Any, timeout: float, wait_for_ready: bool) -> Any:
            self.asked.append(path.removeprefix("/etcdserverpb."))
            if self.asked[-1] == "KV/Range":
                return pb.RangeResponse(header=pb.ResponseHeader(revision=9), kvs=[self._found] if self._found else [])
            if self._errors:
                raise rpc_error(*self._errors.pop(0))
            return pb.TxnResponse(header=pb.ResponseHeader(revision=9), succeeded=True, responses=[pb.ResponseOp()])

        return call

    stream_stream = unary_unary

    async def stands(self, patience: float) -> bool:
        return self.open

    async def close(self, grace: float | None) -> None: ...


async def written(monkeypatch: pytest.MonkeyPatch, store: Store, write: Write, members: int = 1) -> Any:
    monkeypatch.setattr("protocols.etcd.members.open_channel", lambda *_: store)
    client = EtcdClient(EtcdOptions(endpoints=("h:1",) * members))
    await client.start()
    try:
        return await write(client)
    finally:
        await client.close()


def stored(value: bytes, mod: int, version: int) -> mvcc_pb2.KeyValue:
    return mvcc_pb2.KeyValue(key=b"k", value=value, create_revision=3, mod_revision=mod, version=version)


def create(client: EtcdClient) -> Awaitable[Written]:
    return client.create_if_absent(b"k", b"v")


def update(client: EtcdClient) -> Awaitable[Written]:
    return client.update_if_revision(b"k", b"v", 3)


def delete(client: EtcdClient) -> Awaitable[Written]:
    return client.delete_if_revision(b"k", 3)


def create_all(client: EtcdClient) -> Awaitable[bool]:
    return client.create_all_if_absent([(b"k", b"v")])


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize(
    ("write", "found", "revision"),
    [(create, stored(b"v", 3, 1), 3), (update, stored(b"v", 5, 2), 5), (delete, None, 9)],
    ids=["create", "update", "delete"],
)
async def test_write_whose_answer_was_lost_is_proven_by_a_read(
    monkeypatch: pytest.MonkeyPatch, write: Write, found: mvcc_pb2.KeyValue | None, revision: int, members: int
) -> None:
    store = Store(("UNAVAILABLE", LOST), found=found)
    done = await written(monkeypatch, store, write, members)
    assert (done.ok, done.revision, done.by_read) == (True, revision, True)
    assert store.asked == ["KV/Txn", "KV/Range"]


@pytest.mark.parametrize(
    ("write", "found"),
    [(create, None), (create, stored(b"w", 3, 1)), (update, stored(b"v", 3, 1)), (delete, stored(b"v", 3, 1))],
    ids=["create: deleted by another, or on its way", "create: made by another", "update: unchanged", "delete: there"],
)
async def test_write_whose_answer_was_lost_and_that_no_read_proves_is_not_known(
    monkeypatch: pytest.MonkeyPatch, write: Write, found: mvcc_pb2.KeyValue | None
) -> None:
    store = Store(("UNAVAILABLE", LOST), found=found)
    with pytest.raises(OutcomeUnknown, match=UNKNOWN):
        await written(monkeypatch, store, write)
    assert store.asked == ["KV/Txn", "KV/Range"], "a repeat would create what another client deleted since"


async def test_several_creations_whose_answer_was_lost_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(("UNAVAILABLE", LOST))
    with pytest.raises(OutcomeUnknown, match=LOST):
        await written(monkeypatch, store, create_all)
    assert store.asked == ["KV/Txn"]


@pytest.mark.parametrize("text", [NOT_CONNECTED, GOING_AWAY])
@pytest.mark.parametrize("write", [create, update, delete])
async def test_write_that_no_member_took_is_sent_again(
    monkeypatch: pytest.MonkeyPatch, write: Write, text: str
) -> None:
    store = Store(("UNAVAILABLE", text), ("UNAVAILABLE", text))
    done = await written(monkeypatch, store, write, members=3)
    assert (done.ok, done.by_read) == (True, False)
    assert store.asked == ["KV/Txn"] * 3


async def test_write_without_a_connection_in_time_was_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    store.open = False
    with pytest.raises(NotSent):
        await written(monkeypatch, store, lambda client: client.create_if_absent(b"k", b"v", timeout=0.1), members=3)
    assert not store.asked


async def test_silent_member_gets_the_whole_time_of_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several members: a read is given up early for the next one, a write is not, since it may still happen."""
    given: list[float] = []

    class Silent(Store):
        def unary_unary(self, path: str, **_: Any) -> Any:
            async def call(request: Any, timeout: float, wait_for_ready: bool) -> Any:
                given.append(timeout)
                raise rpc_error("DEADLINE_EXCEEDED", "the store did not answer in time")

            return call

        stream_stream = unary_unary

    with pytest.raises(OutcomeUnknown, match="in time: whether"):
        await written(monkeypatch, Silent(), create_all, members=3)
    assert len(given) == 1
    assert given[0] == pytest.approx(EtcdOptions(endpoints=("h:1",)).timeout, abs=0.5)
