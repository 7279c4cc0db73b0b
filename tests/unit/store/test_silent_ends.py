"""What ended, failed or waited without anybody hearing of it: waiters, checkpoints, watch streams, host paths."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from prometheus_client import CollectorRegistry

from actors.apiserver.replica.waiters import RevisionWaiters
from actors.apiserver.watch import begin
from actors.apiserver.watch.begin import FutureWatches
from actors.podworker.model.errors import VolumeNotReady
from actors.podworker.pods.volumes import volumes
from actors.store.engine.core import Core, StoreCollector
from actors.store.file import upkeep
from actors.store.file.object_log import ObjectLog
from actors.store.model.errors import DiskFailed, TooManyRequests
from actors.store.model.options import StoreOptions
from actors.store.model.types import Commit
from actors.store.mvcc.index import Draft
from actors.store.rpc.watch import WatchService, WatchStream
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.process.tasks import FAILURES
from protocols.wire import etcd_pb2 as pb
from tests.support.waiting import until_async


async def test_waiters_that_timed_out_leave_nothing_behind_while_no_revision_arrives() -> None:
    """While the watch cache was away, 1,000 of 1,000 stayed."""
    waiters = RevisionWaiters()
    reached = asyncio.create_task(waiters.wait(7, 60))
    late = await asyncio.gather(*(waiters.wait(5 + number % 9, 0.01) for number in range(1000)))
    assert not any(late)
    assert len(waiters.pending) <= 2
    left = asyncio.create_task(waiters.wait(8, 60))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    assert len(waiters.pending) <= 2
    waiters.advance(7)
    assert await reached
    waiters.advance(20)
    assert not waiters.pending


@asynccontextmanager
async def running_core(root: Path, **options: Any) -> AsyncIterator[Core]:
    paths: dict[str, Any] = {name: root / name for name in ("socket", "address_file", "ca", "cert", "key")}
    core = Core(StoreOptions(directory=root / "store", **paths, **options))
    try:
        yield core
    finally:
        await core.close()


LARGE = bytes(1_000_000)


async def test_large_values_are_checkpointed_by_their_size(tmp_path: Path) -> None:
    """A hundred of them left 100 MB in the write-ahead log; then one checkpoint held up all writes."""
    async with running_core(tmp_path) as core:
        for number in range(24):
            await core.writer.submit(partial(Draft.put, key=b"%d" % number, value=LARGE, lease=0), len(LARGE))
        wal = core.options.file.with_name(f"{core.options.file.name}-wal")
        assert wal.stat().st_size < 12 * len(LARGE)


async def test_small_write_waits_for_one_large_write_at_most(tmp_path: Path) -> None:
    ended: list[str] = []

    async def put(core: Core, key: str, value: bytes) -> None:
        await core.writer.submit(partial(Draft.put, key=key.encode(), value=value, lease=0), len(value))
        ended.append(key)

    async with running_core(tmp_path) as core:
        names = ["large-1", "large-2", "large-3", "small", "large-4"]
        await asyncio.gather(*(put(core, name, LARGE if name.startswith("large") else b"") for name in names))
    assert ended.index("small") <= 1
    assert sorted(ended) == sorted(names)


async def test_small_write_that_waited_for_a_large_one_comes_before_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    waits = threading.Event()
    commit, checkpoint = ObjectLog.commit, upkeep.checkpoint

    def committing(log: ObjectLog, changes: Commit) -> None:
        steps.extend(change.kv.key.decode() for change in changes.changes)
        waits.wait(60)
        commit(log, changes)

    def checkpointing(log: ObjectLog, mode: str = "PASSIVE") -> None:
        steps.append("checkpoint")
        checkpoint(log, mode)

    async with running_core(tmp_path, checkpoint_pages=1) as core:
        monkeypatch.setattr(ObjectLog, "commit", committing)
        monkeypatch.setattr(upkeep, "checkpoint", checkpointing)

        def put(key: str, value: bytes) -> asyncio.Task[Any]:
            operation = partial(Draft.put, key=key.encode(), value=value, lease=0)
            return asyncio.create_task(core.writer.submit(operation, len(value)))

        first = put("large-1", LARGE)
        await until_async("committing", lambda: steps == ["large-1"])
        others = [put("small", b""), put("large-2", LARGE)]
        await asyncio.sleep(0)
        waits.set()
        await asyncio.gather(first, *others)
        assert steps[:4] == ["large-1", "small", "checkpoint", "large-2"]


async def test_writes_beyond_the_bytes_that_may_wait_are_refused_until_others_are_answered(tmp_path: Path) -> None:
    """Few enough to pass the bound on their number."""

    async def put(core: Core, number: int) -> object:
        return await core.writer.submit(partial(Draft.put, key=b"%d" % number, value=LARGE, lease=0), len(LARGE))

    async with running_core(tmp_path, pending_bytes=3 * len(LARGE)) as core:
        outcomes = await asyncio.gather(*(put(core, number) for number in range(8)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes[3:]] == [TooManyRequests] * 5
        assert not any(isinstance(outcome, Exception) for outcome in outcomes[:3])
        await put(core, 8)
        assert [core.index.get(b"%d" % number) is not None for number in (2, 3, 8)] == [True, False, True]


async def test_checkpoints_that_fail_are_logged_once_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(log: Any, mode: str = "PASSIVE") -> None:
        raise DiskFailed("etcdserver: the store's file cannot be written: database disk image is malformed")

    registry = CollectorRegistry()
    async with running_core(tmp_path, checkpoint_pages=1) as core:
        registry.register(StoreCollector(core))
        monkeypatch.setattr(upkeep, "checkpoint", failing)
        for number in range(3):
            await core.writer.submit(partial(Draft.put, key=b"a", value=b"%d" % number, lease=0))
        metric = "nodeplane_store_checkpoint_failures_total"
        await until_async("counted", lambda: registry.get_sample_value(metric) == 3)
        kept = core.index.get(b"a")
        assert kept is not None
        assert kept.value == b"2"
        assert caplog.text.count("checkpoint failed, the write-ahead log grows error=etcdserver: the store's file") == 1
    assert "database disk image is malformed" in caplog.text
    assert "checkpoint failed before the end" in caplog.text


@pytest.mark.parametrize(("part", "kind"), [("_handle", "watch requests"), ("tick", "watch progress")])
async def test_watch_stream_ends_when_a_task_of_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str, kind: str
) -> None:
    """Its requests were answered no more while it went on, and nobody knew."""
    failures = FAILURES[kind]

    def breaks(*arguments: Any) -> Any:
        raise ZeroDivisionError("a bug")

    async def requests() -> AsyncIterator[pb.WatchRequest]:
        yield pb.WatchRequest(progress_request=pb.WatchProgressRequest())
        await asyncio.Event().wait()

    monkeypatch.setattr(WatchStream, part, breaks if part == "_handle" else lambda self: asyncio.to_thread(breaks))
    context = Mock()
    context.write = lambda answer: asyncio.sleep(0)
    async with running_core(tmp_path) as core:
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(WatchService(core).watch(requests(), context), 60)
    assert FAILURES[kind] == failures + 1
    assert "failed: ZeroDivisionError: a bug" in caplog.text


class Store:
    """Answers once it is allowed to, and counts the calls of each resource."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.may_answer = asyncio.Event()

    async def revision(self, resource: Any) -> int:
        self.calls.append(resource)
        await self.may_answer.wait()
        if resource == "away":
            raise NodeplaneError("the store is away")
        return 10


async def test_future_watches_of_a_resource_share_one_call_and_wait_for_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(begin, "WAIT_SECONDS", 0.01)
    store, expired = Store(), []
    future = FutureWatches(store.revision)
    for resource in ("pods", "away", "nodes"):
        hub = Mock(resource=resource, replica=Mock(mark=5), expire=lambda watcher: expired.append(watcher.start))
        for start in (*range(6, 16), 5):
            future.add(hub, cast(Any, Mock(start=start, done=False)))
    await until_async("all are asked", lambda: len(store.calls) == 3)
    assert sorted(store.calls) == ["away", "nodes", "pods"]
    store.may_answer.set()
    await until_async("the future ends", lambda: sorted(expired) == sorted([*range(11, 16)] * 2))
    future.close()


async def test_host_path_that_does_not_answer_keeps_no_thread_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`stat` on a dead file server took the six threads of the loop, and with them volumes and logs of the node."""
    back, hung, stat = threading.Event(), 0, os.stat

    def hanging(path: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal hung
        if str(path).startswith("/nfs"):
            hung += 1
            back.wait()
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", hanging)
    monkeypatch.setattr(volumes, "HOST_PATH_S", 0.05)
    dead: list[views.HostPathVolumeSource] = [{"path": f"/nfs/{number}", "type": "Directory"} for number in range(20)]
    try:
        for _ in range(2):
            found = await asyncio.gather(*map(volumes.ready_host_path, dead), return_exceptions=True)
            assert all(isinstance(error, VolumeNotReady) for error in found)
        assert "/nfs/0 does not answer within 0.05 s; is its file server away?" in str(found[0])
        assert hung == len(dead), "one thread a path, however often it is tried"
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), 60) == 7
        monkeypatch.setattr(volumes, "HOST_PATH_S", 60.0)
        await volumes.ready_host_path({"path": str(tmp_path), "type": "Directory"})
        await volumes.ready_host_path({"path": "/no/such"})
    finally:
        back.set()
    await until_async("all have returned", lambda: not volumes.HOST_PATHS._running)
