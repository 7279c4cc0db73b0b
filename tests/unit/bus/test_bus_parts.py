"""Ring, sync desk, replica, follower details and the lock: one rule a test."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.bus import Bus, BusOptions, NameTaken, error_for
from protocols.bus.bus import NameLock
from protocols.bus.errors import BusError, NotFound, failure_of
from protocols.bus.follower import Clock, Follower, FollowerOptions, Heard, Link, Send, Synced
from protocols.bus.following import Replica
from protocols.bus.frames import BusyFrame, MoreFrame, ReplayFrame, SnapshotFrame, SyncFrame
from protocols.bus.stream import OVERHEAD, ChunkLimits, DeskLimits, Ring, Stream, SyncDesk
from protocols.bus.types import EdgeSource, Event, Op, StateSource
from protocols.errors import SettingsInvalid
from tests.support.waiting import until_async


@given(st.integers(1, 20), st.integers(0, 60), st.integers(0, 70))
def test_ring_any_position_returns_all_or_nothing(count: int, published: int, wanted: int) -> None:
    ring = Ring(count)
    for number in range(published):
        ring.append(b"%d" % number)
    told = ring.newest(wanted)
    if told is None:
        assert wanted > min(count, published)
    else:
        assert told == [b"%d" % number for number in range(published - wanted, published)]


def test_ring_full_drops_oldest() -> None:
    ring = Ring(1000, size=10 * (OVERHEAD + 100))
    for number in range(1, 100):
        ring.append(bytes(100))
        assert min(number, 5) <= len(ring) <= 10


def desk(sessions: int = 2) -> tuple[SyncDesk, Stream]:
    items = {str(number): b"x" for number in range(10)}
    stream = Stream("s", StateSource(items), 4, lambda data: None)
    stream.epoch = 5
    return SyncDesk(DeskLimits(sessions=sessions, window=2, chunk=ChunkLimits(count=3))), stream


def ask(id: int) -> SyncFrame:
    return SyncFrame(1, id, "s", 0, 0, 0)


def test_sync_long_answer_waits_for_credit() -> None:
    office, stream = desk()
    chunks: list[Any] = office.sync(b"a", ask(1), stream, 0.0)
    stream.publish(Op.UPSERT, "new", b"y")
    assert len(chunks) == 2
    while not chunks[-1].last:
        chunks += office.more(b"a", MoreFrame(1, 1, "s", chunks[-1].index), 0.0)
    assert [chunk.index for chunk in chunks] == [0, 1, 2, 3]
    assert {(chunk.epoch, chunk.seq) for chunk in chunks} == {(5, 0)}
    assert office.open == 0


def test_desk_repeated_question_is_answered_once() -> None:
    office, stream = desk(sessions=1)
    assert len(office.sync(b"a", ask(1), stream, 0.0)) == 2
    assert office.sync(b"a", ask(1), stream, 0.5) == []
    assert isinstance(office.sync(b"b", ask(1), stream, 0.5)[0], BusyFrame)
    office.expire(20.0)
    assert isinstance(office.sync(b"b", ask(2), stream, 20.0)[0], SnapshotFrame)


def test_stream_not_owned_yet_is_busy() -> None:
    office, _ = desk()
    assert isinstance(office.sync(b"a", ask(1), None, 0.0)[0], BusyFrame)


def test_stream_mark_ahead_of_owner_gets_snapshot() -> None:
    class Remembers(EdgeSource):
        def since(self, mark: int) -> list[Event[Any]]:
            return []

    stream = Stream("s", Remembers(), 4, lambda data: None)
    stream.set_mark(5)
    assert stream.answer(SyncFrame(1, 1, "s", 9, 9, 5)).items is None
    assert stream.answer(SyncFrame(1, 1, "s", 9, 9, 6)).items == []


def live() -> Follower:
    follower = Follower(FollowerOptions("s"))
    follower.step(Link(True), 0.0)
    follower.step(ReplayFrame(1, 1, "s", 5, 0, 0, 0, True, []), 0.0)
    return follower


def test_follower_topic_not_heard_is_not_synced() -> None:
    follower = live()
    assert follower.step(Heard(5, 0, 0, proof=False), 0.1) == []
    assert [type(action) for action in follower.step(Clock(), 0.2)] == [Send]
    assert follower.step(ReplayFrame(1, 2, "s", 5, 0, 0, 0, True, []), 0.2) == []
    assert follower.step(Heard(5, 0, 0, proof=True), 0.3) == [Synced(True)]


def test_follower_silence_is_stale_until_message() -> None:
    follower = live()
    follower.step(Heard(5, 0, 0, proof=True), 0.0)
    assert follower.step(Clock(), 3.4) == []
    assert follower.step(Clock(), 3.6)[0] == Synced(False)
    follower.step(Heard(5, 0, 0, proof=False), 9.0)
    assert follower.step(ReplayFrame(1, follower.syncs, "s", 5, 0, 0, 0, True, []), 9.0) == [Synced(True)]


def test_follower_unanswered_sync_repeats_with_backoff() -> None:
    follower = Follower(FollowerOptions("s"))
    follower.step(Link(True), 0.0)
    now, waits = 0.0, []
    for _ in range(6):
        assert follower.wake_at is not None
        waits.append(round(follower.wake_at - now, 3))
        now = follower.wake_at
        follower.step(Clock(), now)
    assert waits == [0.02, 0.04, 0.08, 0.16, 0.25, 0.25]


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3)),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3)),
)
def test_replica_snapshot_emits_difference(before: dict[str, int], after: dict[str, int]) -> None:
    told: dict[str, int] = {}
    ops: list[Op] = []

    def on_change(op: Op, key: str, new: int | None, old: int | None) -> None:
        ops.append(op)
        assert told.get(key) == old
        assert new != old
        if new is None:
            del told[key]
        else:
            told[key] = new

    replica: Replica[int] = Replica(on_change)
    replica.on_snapshot(list(before.items()), 1)
    ops.clear()
    replica.on_snapshot(list(after.items()), 2)
    assert told == replica.items == after
    assert ops == sorted(ops, key=lambda op: op is not Op.DELETE)


def test_epochs_of_a_name_grow(tmp_path: Path) -> None:
    (tmp_path / "x.lock").write_text(f"1 {2**61}\n")
    first, second = NameLock(tmp_path, "x"), NameLock(tmp_path, "x")
    assert first.take() == 2**61 + 1
    with pytest.raises(NameTaken, match=f"pid {os.getpid()}"):
        second.take()
    first.release()
    assert second.take() == 2**61 + 2
    second.release()


@pytest.mark.parametrize("content", ["", "x y", "1", f"1 {2**200}", "\xff"])
def test_epochs_damaged_lock_file_is_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.lock").write_text(content)
    lock = NameLock(tmp_path, "x")
    assert 0 < lock.take() < 2**63
    lock.release()


def test_errors_over_the_wire_keep_code() -> None:
    assert isinstance(error_for("NOT_FOUND", "gone", {"a": "b"}), NotFound)
    assert error_for("ODD", "x").code == "ODD"
    assert failure_of(SettingsInvalid("bad")).code == "INVALID_ARGUMENT"
    assert failure_of(KeyError("k")).code == "INTERNAL"
    assert failure_of(BusError("ABORTED", "m")).code == "ABORTED"


async def test_close_that_is_cancelled_while_threads_are_busy_leaves_no_context(tmp_path: Path) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    bus, free = Bus(BusOptions(name="", run_dir=tmp_path)), threading.Event()
    await bus.start()
    assert bus._sockets
    context, busy = bus._sockets._context, asyncio.get_running_loop().run_in_executor(None, free.wait)
    closing = asyncio.create_task(bus.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    free.set()
    await busy
    await until_async("it is closed", lambda: context.closed)
