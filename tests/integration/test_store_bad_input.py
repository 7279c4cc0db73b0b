"""Garbage, full disks, damaged files: one clear line, and nothing else is disturbed."""

import asyncio
import contextlib
import socket
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from actors.store.actor import Store
from actors.store.model.errors import BadOption, StoreCorrupt, StoreError, StoreUnusable
from actors.store.model.options import StoreOptions
from actors.store.server import grpc_server
from protocols.wire import etcd_pb2 as pb
from tests.support.authority import Authority
from tests.support.store_lab import Api, lab, listened_at, short_directory, until
from tests.support.waiting import until_async

GARBLED = ("INVALID_ARGUMENT", "etcdserver: this is not a PutRequest: the bytes do not decode")
GONE = "etcdserver: mvcc: required revision has been compacted"
FULL = ("RESOURCE_EXHAUSTED", "etcdserver: mvcc: database space exceeded")


def options(root: Path, **changes: object) -> StoreOptions:
    given = {
        "directory": root / "store",
        "socket": root / "store.sock",
        "address_file": root / "store.addr",
        "ca": root / "pki" / "ca.crt",
        "cert": root / "pki" / "store.crt",
        "key": root / "pki" / "store.key",
        "sync": "normal",
    }
    return StoreOptions(**{**given, **changes})  # type: ignore[arg-type]  # a test's keyword table


@asynccontextmanager
async def serving(made: StoreOptions) -> AsyncIterator[tuple[Api, Store]]:
    """Run a store in this process for one story."""

    store = Store(made)
    tasks: list[asyncio.Task[None]] = []
    await store.start(lambda work, name: tasks.append(asyncio.create_task(work, name=name)))
    api = Api(f"unix:{made.socket}")
    try:
        yield api, store
    finally:
        await api.close()
        await store.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_store_disk_full_fails_writes_until_space() -> None:
    with short_directory() as root:
        async with serving(options(root, max_pages=150)) as (api, store):
            kept = 0
            with contextlib.suppress(grpc.aio.AioRpcError):
                while True:
                    await api.put(pb.PutRequest(key=b"fill/%03d" % kept, value=b"x" * 50_000))
                    kept += 1
            assert await api.fails(api.put(pb.PutRequest(key=b"fill/x", value=b"x" * 50_000))) == FULL
            assert [alarm.alarm for alarm in (await api.alarm(pb.AlarmRequest())).alarms] == [pb.NOSPACE]
            assert "NOSPACE" in (await api.status(pb.StatusRequest())).errors[0]
            before = await api.range(pb.RangeRequest(key=b"fill/", range_end=b"fill0", keys_only=True))
            assert before.count == kept
            both = [pb.PutRequest(key=b"half/a", value=b"1"), pb.PutRequest(key=b"half/b", value=b"x" * 900_000)]
            txn = pb.TxnRequest(success=[pb.RequestOp(request_put=each) for each in both])
            assert await api.fails(api.txn(txn)) == FULL
            after = await api.range(pb.RangeRequest(key=b"half/", range_end=b"half0"))
            assert (after.count, after.header.revision) == (0, before.header.revision)
            store.core.log.db.execute("PRAGMA max_page_count = 100000")
            answer = await api.txn(txn)
            assert answer.header.revision == before.header.revision + 1
            assert len((await api.alarm(pb.AlarmRequest())).alarms) == 0


async def test_store_at_its_quota_only_deletes_until_there_is_room() -> None:
    with short_directory() as root:
        async with serving(options(root, quota_bytes=8_000_000)) as (api, _store):
            kept = 0
            with contextlib.suppress(grpc.aio.AioRpcError):
                while True:
                    await api.put(pb.PutRequest(key=b"fill/%03d" % kept, value=b"x" * 500_000))
                    kept += 1
            put = pb.PutRequest(key=b"fill/x", value=b"x")
            assert await api.fails(api.put(put)) == FULL
            assert [alarm.alarm for alarm in (await api.alarm(pb.AlarmRequest())).alarms] == [pb.NOSPACE]
            status = await api.status(pb.StatusRequest())
            assert "NOSPACE" in status.errors[0]
            assert status.dbSizeInUse >= status.dbSizeQuota == 8_000_000
            assert (await api.range(pb.RangeRequest(key=b"fill/000"))).count == 1
            gone = await api.delete_range(pb.DeleteRangeRequest(key=b"fill/", range_end=b"fill0"))
            assert gone.deleted == kept
            what = "deleted keys, which are history, give way"
            await until_async(what, lambda: api.put(put), errors=(grpc.aio.AioRpcError,), good=lambda answer: True)
            assert not (await api.alarm(pb.AlarmRequest())).alarms


async def test_quota_near_shrinks_history_first() -> None:
    """One key written over and over: a hundred times what the quota holds."""

    with short_directory() as root:
        async with serving(options(root, quota_bytes=4_000_000)) as (api, _store):
            for _ in range(100):
                with contextlib.suppress(grpc.aio.AioRpcError):  # for a moment, while history is removed
                    await api.put(pb.PutRequest(key=b"one", value=b"x" * 400_000))

            async def alarms() -> list[pb.AlarmMember]:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    await api.put(pb.PutRequest(key=b"one", value=b"x"))
                return list((await api.alarm(pb.AlarmRequest())).alarms)

            await until_async("no alarm", alarms, good=lambda found: not found)


async def test_history_old_is_compacted() -> None:
    """And a watch from what is kept sees all of it."""

    def rows(store: Store) -> int:
        return int(store.core.log.db.execute("SELECT count(*) FROM log").fetchone()[0])

    async def refused(api: Api, revision: int) -> str:
        try:
            await api.range(pb.RangeRequest(key=b"c", revision=revision))
        except grpc.aio.AioRpcError as error:
            return error.details() or ""
        return ""

    with short_directory() as root:
        async with serving(options(root, compact_every=0.05, history_seconds=0.2, history_min_revisions=10)) as (
            api,
            store,
        ):
            for number in range(100):
                await api.put(pb.PutRequest(key=b"c", value=b"%d" % number))

            async def compacted() -> tuple[str, int]:
                return await refused(api, 80), rows(store)

            await until_async("old history compacted", compacted, good=lambda s: s[0] == GONE and s[1] <= 20)
            kept = await api.range(pb.RangeRequest(key=b"c", revision=91))
            assert kept.kvs[0].value == b"89"


async def test_batch_one_operation_fails_others_succeed() -> None:
    with short_directory() as root:
        async with serving(options(root)) as (api, store):

            def broken(draft: object) -> None:
                raise ZeroDivisionError("a fault of ours")

            good = [api.put(pb.PutRequest(key=b"ok/%d" % n)) for n in range(20)]
            results = await asyncio.gather(
                *good[:10], store.core.writer.submit(broken), *good[10:], return_exceptions=True
            )
            assert [type(result) for result in results if not isinstance(result, pb.PutResponse)] == [StoreError]
            assert (await api.range(pb.RangeRequest(key=b"ok/", range_end=b"ok0", count_only=True))).count == 20


async def test_store_unsupported_call_is_unimplemented() -> None:
    with short_directory() as root:
        async with serving(options(root)) as (api, _store):
            for name in ("Cluster/MemberAdd", "Auth/AuthEnable", "Maintenance/MoveLeader"):
                code, text = await api.fails(
                    api.channel.unary_unary(f"/etcdserverpb.{name}", bytes, bytes)(b"", timeout=30)
                )
                assert (code, "nodeplane's store has one member" in text) == ("UNIMPLEMENTED", True)
            activate = api.alarm(pb.AlarmRequest(action=pb.AlarmRequest.ACTIVATE, alarm=pb.NOSPACE))
            assert (await api.fails(activate))[0] == "UNIMPLEMENTED"
            await api.put(pb.PutRequest(key=b"a"))
            await api.defragment(pb.DefragmentRequest())
            assert (await api.range(pb.RangeRequest(key=b"a"))).count == 1


LAST = 2**63 - 1
FUTURE = ("OUT_OF_RANGE", "etcdserver: mvcc: required revision is a future revision")


@pytest.mark.parametrize("revision", [LAST, LAST - 1, 2**43, 2**43 - 1])
async def test_store_revision_beyond_all_is_a_future_one(revision: int) -> None:
    """SQLite's ids have 63 bits, of which 43 are the revision."""
    with short_directory() as root:
        async with serving(options(root)) as (api, _store):
            await api.put(pb.PutRequest(key=b"a", value=b"1"))
            assert await api.fails(api.range(pb.RangeRequest(key=b"a", revision=revision))) == FUTURE
            assert await api.fails(api.compact(pb.CompactionRequest(revision=revision))) == FUTURE
            past = pb.RangeRequest(key=b"a", revision=revision)
            within = pb.TxnRequest(success=[pb.RequestOp(request_range=past)])
            assert await api.fails(api.txn(within)) == FUTURE
            found = await api.range(pb.RangeRequest(key=b"a", min_mod_revision=revision))
            assert list(found.kvs) == []
            long = pb.LeaseGrantRequest(TTL=revision, ID=1)
            assert (await api.fails(api.grant(long)))[0] == "OUT_OF_RANGE"
            assert (await api.range(pb.RangeRequest(key=b"a"))).count == 1


@pytest.mark.parametrize("junk", [b"not a database, " * 100, b"SQLite format 3\0" + b"\xff" * 8000])
def test_store_damaged_file_is_refused(junk: bytes) -> None:
    with short_directory() as root:
        made = options(root)
        made.directory.mkdir()
        made.file.write_bytes(junk)
        with pytest.raises(StoreCorrupt, match=r"objects.sqlite is damaged .* move it away") as caught:
            Store(made)
        assert "\n" not in str(caught.value)
        assert made.file.read_bytes() == junk


async def test_store_torn_page_is_found_at_start() -> None:
    with short_directory() as root:
        made = options(root)
        async with serving(made) as (api, _store):
            for n in range(200):
                await api.put(pb.PutRequest(key=b"k%d" % n, value=b"v" * 2000))
        data = bytearray(made.file.read_bytes())
        data[8192:20480] = b"\xa5" * 12288
        made.file.write_bytes(data)
        with pytest.raises(StoreCorrupt):
            Store(made)


def test_store_foreign_database_is_refused() -> None:
    with short_directory() as root:
        made = options(root)
        made.directory.mkdir()
        other = sqlite3.connect(made.file)
        other.execute("CREATE TABLE t (x)")
        other.commit()
        other.close()
        with pytest.raises(StoreCorrupt, match="not a store of nodeplane"):
            Store(made)


def test_store_bad_options_are_refused() -> None:
    with short_directory() as root:
        with pytest.raises(BadOption, match="full or normal"):
            options(root, sync="maybe")
        with pytest.raises(BadOption, match="store_port"):
            options(root, port=70000)
        (root / "file").write_text("")
        with pytest.raises(StoreUnusable, match="cannot use the store's directory"):
            Store(options(root, directory=root / "file" / "store"))


async def test_store_port_in_use_is_named() -> None:
    with short_directory() as root, socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        authority = Authority(root / "pki")
        authority.issue("store")
        made = options(root, port=holder.getsockname()[1])
        store = Store(made)
        tasks: list[asyncio.Task[None]] = []
        with pytest.raises(StoreUnusable, match=r"cannot listen on 127\.0\.0\.1"):
            await store.start(lambda work, name: tasks.append(asyncio.create_task(work)))
        await store.stop()
        await asyncio.gather(*tasks)


async def test_store_garbage_and_stale_socket_do_no_harm() -> None:
    with lab() as made:
        made.socket.write_text("stale")
        made.start("store")
        until("the store listens", lambda: listened_at(made.socket))
        assert made.socket.stat().st_mode & 0o777 == 0o600
        with socket.socket(socket.AF_UNIX) as raw:
            raw.connect(str(made.socket))
            raw.sendall(b"\x16\x03\x01 garbage \r\n\r\n" * 1000)

        api = Api(made.target)
        assert (await api.put(pb.PutRequest(key=b"a"))).header.revision == 2
        bad = api.channel.unary_unary("/etcdserverpb.KV/Put", bytes, bytes)
        assert await api.fails(bad(b"\xff\xff\xff", timeout=30)) == GARBLED
        assert (await api.range(pb.RangeRequest(key=b"a"))).count == 1
        await api.close()


def test_store_second_process_is_refused() -> None:
    with lab("store") as made:
        until("the store listens", lambda: listened_at(made.socket))
        second = made.start("store")
        assert second.wait(60) == 1
        assert made.log("store").strip().count("\n") <= 1
    with lab() as made:
        made.layout.store.mkdir()
        (made.layout.store / "objects.sqlite").write_bytes(b"junk" * 2000)
        assert made.start("store").wait(60) == 1
        assert made.log("store").count("\n") == 1
        assert "is damaged" in made.log("store")


async def test_store_snapshot_that_nobody_reads_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that was stopped while it took a snapshot kept others from taking one until it was killed."""
    monkeypatch.setattr(grpc_server, "STALLED_S", 0.5)
    with short_directory() as root:
        made = options(root)
        async with serving(made) as (api, _):
            for number in range(30):
                await api.put(pb.PutRequest(key=b"%d" % number, value=b"x" * 1_000_000))
            path = "/etcdserverpb.Maintenance/Snapshot"
            async with grpc.aio.insecure_channel(f"unix:{made.socket}", [("grpc.use_local_subchannel_pool", 1)]) as own:
                stopped: Any = own.unary_stream(path, bytes, pb.SnapshotResponse.FromString)(b"")
                assert (await stopped.read()).blob
                other = api.channel.unary_stream(path, bytes, pb.SnapshotResponse.FromString)(b"", timeout=60)
                assert len([piece async for piece in other]) > 100
                with pytest.raises(grpc.aio.AioRpcError, match="the client read nothing for 0"):
                    await _rest(stopped)


async def _rest(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass
