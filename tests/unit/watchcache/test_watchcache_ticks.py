"""Marks of quiet streams: published at once, then rarely while changes keep coming, and at once on request."""

import asyncio
from typing import Any, cast

from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.store_state import PublishedEvent, StoreState
from actors.watchcache.shell.bus_streams import TICK_EVERY, BusStreams
from protocols.bus import Bus
from protocols.etcd.options import EtcdOptions
from protocols.messages.objects import ADDED, ObjectEvent

OPTIONS = WatchcacheOptions(etcd=EtcdOptions(endpoints=("unix:/none",)), resume_revisions=0)


class Recorder:
    """Stands for the bus and for every stream on it."""

    name = ""

    def __init__(self) -> None:
        self.ticks = 0
        self.published = asyncio.Event()
        self.calls: list[tuple[str, int]] = []
        self.events: list[ObjectEvent] = []

    def own(self, name: str, source: object, mark: int = 0) -> "Recorder":
        self.calls.append(("own", mark))
        return self

    def disown(self, name: str) -> None:
        self.calls.append(("disown", 0))

    def publish(self, op: Any, key: str, value: ObjectEvent, mark: int) -> None:
        self.events.append(value)

    def set_mark(self, mark: int) -> None: ...

    def tick(self) -> None:
        self.ticks += 1
        self.published.set()


async def busy(recorder: Recorder) -> BusStreams:
    """Streams that published three changes in a row: one tick was sent for them."""
    state = StoreState(OPTIONS)
    state.load([], 5)
    streams = BusStreams(cast(Bus, recorder), state)
    streams.publish([])
    await asyncio.sleep(TICK_EVERY)
    recorder.ticks = 0
    change = PublishedEvent(state.caches[0], "a", ObjectEvent(ADDED, 6, b"{}"))
    for _ in range(3):
        streams.publish([change])
    assert recorder.ticks == 1
    recorder.published.clear()
    return streams


async def test_marks_last_is_sent_by_itself() -> None:
    recorder = Recorder()
    await busy(recorder)
    async with asyncio.timeout(60):
        await recorder.published.wait()
    assert recorder.ticks == 2


async def test_flush_marks_publishes_at_once_and_never_twice() -> None:
    recorder = Recorder()
    streams = await busy(recorder)
    streams.flush_marks()
    assert recorder.ticks == 2
    streams.flush_marks()
    await asyncio.sleep(2 * TICK_EVERY)
    assert recorder.ticks == 2


async def test_changes_of_one_revision_report_that_more_follow_but_for_the_last() -> None:
    recorder, state = Recorder(), StoreState(OPTIONS)
    state.load([], 5)
    streams = BusStreams(cast(Bus, recorder), state)
    streams.publish([])
    one, other = state.caches[:2]
    order = ((one, 6), (one, 7), (other, 7), (one, 7), (one, 8))
    streams.publish([PublishedEvent(cache, "a", ObjectEvent(ADDED, rv, b"{}")) for cache, rv in order])
    assert [event.more for event in recorder.events] == [False, True, False, False, False]


async def test_streams_begin_anew_at_the_list_that_took_their_place() -> None:
    recorder, state = Recorder(), StoreState(OPTIONS)
    state.load([], 5)
    streams = BusStreams(cast(Bus, recorder), state)
    streams.publish([])
    recorder.calls.clear()
    state.replace([], 9)
    streams.begin_anew()
    count = len(state.caches)
    assert recorder.calls == [("disown", 0)] * count + [("own", 9)] * count
