"""Changes in quick succession wait for company in the kernel, unless somebody waits for them."""

import asyncio
from collections import deque

import pytest

from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.store_state import PublishedEvent, StoreState
from actors.watchcache.shell.store_follower import MAX_BATCHES, StoreFollower
from protocols.etcd.client import EtcdClient
from protocols.etcd.errors import Unavailable
from protocols.etcd.options import EtcdOptions
from protocols.etcd.types import KeyValue, WatchBatch, WatchEvent

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
        self.published: list[list[int]] = []

    def publish(self, changes: list[PublishedEvent]) -> None:
        self.published.append([change.event.rv for change in changes])

    def begin_anew(self) -> None: ...

    def on_unavailable(self, why: str) -> None: ...


def feed_that_waits(seconds: float, listener: Nobody | None = None) -> StoreFollower:
    etcd = EtcdOptions(endpoints=("h:1",))
    options = WatchcacheOptions(etcd=etcd, batch_wait=seconds, batch_wait_max=seconds)
    state = StoreState(options)
    state.load([], 1)
    return StoreFollower(options, EtcdClient(etcd), state, listener or Nobody())


async def gathered(follower: StoreFollower, watch: Held) -> None:
    async with asyncio.timeout(15):
        await follower._wait_for_batch(watch, 1)  # type: ignore[arg-type]  # Held has what is asked of it


async def test_follower_change_close_behind_waits() -> None:
    follower, watch = feed_that_waits(0.5), Held()
    await gathered(follower, watch)
    assert watch.times == 0
    await gathered(follower, watch)
    assert watch.times == 1


async def test_follower_awaited_revision_is_not_delayed() -> None:
    follower, watch = feed_that_waits(LONG), Held()
    await gathered(follower, watch)
    gathering = asyncio.create_task(gathered(follower, watch))
    await watch.begun.wait()
    waiting = asyncio.create_task(follower.waiters.wait(7, LONG))
    await gathering  # ends by the one who came meanwhile
    await gathered(follower, watch)
    assert watch.times == 1, "and does not begin while there is one"
    follower.waiters.advance(7)
    assert await waiting


async def test_follower_batches_together_are_published_together() -> None:
    listener = Nobody()
    follower = feed_that_waits(LONG, listener)
    with pytest.raises(Unavailable):
        await follower._take_batches(Arrived(range(1, 201)))  # type: ignore[arg-type]  # it has what is asked of it
    first, *later = listener.published
    assert first == [], "the state is complete, and its snapshot holds what came until then"
    assert [rv for published in later for rv in published] == list(range(2, 201))
    assert len(later) <= 200 // MAX_BATCHES + 1
    assert follower._state.position == 200
