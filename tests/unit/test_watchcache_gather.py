"""Changes in quick succession wait for company in the kernel, unless somebody waits for them."""

import asyncio
from collections import deque

import pytest

from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.store_state import Change, State
from actors.watchcache.service.store_follower import TOGETHER, Feed
from protocols.etcd import EtcdClient, EtcdOptions, KeyValue, Unavailable, WatchBatch, WatchEvent

LONG = 60.0


class Held:
    """Stands for a Watch."""

    def __init__(self) -> None:
        self.times = 0
        self.begun = asyncio.Event()

    def hold(self) -> None:
        self.times += 1
        self.begun.set()


class Arrived:
    """A Watch whose messages are here already, and which breaks after them."""

    def __init__(self, revisions: range) -> None:
        self._batches = deque(WatchBatch(revision, [written(revision)]) for revision in revisions)

    @property
    def more(self) -> bool:
        """Also of the break."""
        return True

    def hold(self) -> None: ...

    def __aiter__(self) -> "Arrived":
        return self

    async def __anext__(self) -> WatchBatch:
        if not self._batches:
            raise Unavailable("the store ended the watch stream")
        return self._batches.popleft()


def written(revision: int) -> WatchEvent:
    key = b"/registry/configmaps/default/m-%d" % revision
    return WatchEvent(False, KeyValue(key, b"{}", revision, revision, 1), None)


class Nobody:
    def __init__(self) -> None:
        self.told: list[list[int]] = []

    def tell(self, changes: list[Change]) -> None:
        self.told.append([change.event.rv for change in changes])

    def trouble(self, why: str) -> None: ...


def feed_that_waits(seconds: float, listener: Nobody | None = None) -> Feed:
    etcd = EtcdOptions(endpoints=("h:1",))
    options = WatchcacheOptions(etcd=etcd, gather=seconds, gather_crowd=seconds)
    state = State(options)
    state.load([], 1)
    return Feed(options, EtcdClient(etcd), state, listener or Nobody())


async def gathered(feed: Feed, watch: Held) -> None:
    async with asyncio.timeout(15):
        await feed._gather(watch, 1)  # type: ignore[arg-type]  # Held has what is asked of it


def test_only_what_follows_closely_is_left_to_the_kernel() -> None:
    async def story() -> None:
        feed, watch = feed_that_waits(0.5), Held()
        await gathered(feed, watch)
        assert watch.times == 0
        await gathered(feed, watch)
        assert watch.times == 1

    asyncio.run(story())


def test_who_waits_for_a_revision_waits_for_no_company() -> None:
    async def story() -> None:
        feed, watch = feed_that_waits(LONG), Held()
        await gathered(feed, watch)
        gathering = asyncio.create_task(gathered(feed, watch))
        await watch.begun.wait()
        waiting = asyncio.create_task(feed.waiters.wait(7, LONG))
        await gathering  # ends by the one who came meanwhile
        await gathered(feed, watch)
        assert watch.times == 1, "and does not begin while there is one"
        feed.waiters.advance(7)
        assert await waiting

    asyncio.run(story())


def test_what_arrived_together_is_told_together_and_nothing_of_it_is_lost_with_the_watch() -> None:
    async def story() -> None:
        listener = Nobody()
        feed = feed_that_waits(LONG, listener)
        with pytest.raises(Unavailable):
            await feed._take_all(Arrived(range(1, 201)))  # type: ignore[arg-type]  # it has what is asked of it
        first, *later = listener.told
        assert first == [], "the state is complete, and its snapshot holds what came until then"
        assert [rv for told in later for rv in told] == list(range(2, 201))
        assert len(later) <= 200 // TOGETHER + 1
        assert feed._state.position == 200

    asyncio.run(story())
