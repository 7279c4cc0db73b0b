"""Changes in quick succession wait for company in the kernel, unless somebody waits for them."""

import asyncio

from actors.watchcache.feed import Feed
from actors.watchcache.options import WatchcacheOptions
from actors.watchcache.state import Change, State
from protocols.etcd import EtcdClient, EtcdOptions

LONG = 60.0


class Held:
    """Stands for a Watch."""

    def __init__(self) -> None:
        self.times = 0
        self.begun = asyncio.Event()

    def hold(self) -> None:
        self.times += 1
        self.begun.set()


class Nobody:
    def tell(self, changes: list[Change]) -> None: ...

    def trouble(self, why: str) -> None: ...


def feed_that_waits(seconds: float) -> Feed:
    etcd = EtcdOptions(endpoints=("h:1",))
    options = WatchcacheOptions(etcd=etcd, gather=seconds, gather_crowd=seconds)
    return Feed(options, EtcdClient(etcd), State(options), Nobody())


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
