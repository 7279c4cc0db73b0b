"""Changes in quick succession wait for company, a lone one does not."""

import asyncio
import time

from actors.watchcache.feed import Feed
from actors.watchcache.options import WatchcacheOptions
from actors.watchcache.state import Change, State
from protocols.etcd import EtcdClient, EtcdOptions

GATHER = 0.2


class Held:
    def hold(self) -> None: ...


class Nobody:
    def tell(self, changes: list[Change]) -> None: ...

    def trouble(self, why: str) -> None: ...


def test_only_what_follows_closely_waits() -> None:
    async def waits(feed: Feed) -> bool:
        before = time.monotonic()
        await feed._gather(Held())  # type: ignore[arg-type]  # it stands for a Watch
        return time.monotonic() - before >= GATHER

    async def story() -> None:
        etcd = EtcdOptions(endpoints=("h:1",))
        options = WatchcacheOptions(etcd=etcd, gather=GATHER)
        feed = Feed(options, EtcdClient(etcd), State(options), Nobody())
        assert [await waits(feed) for _ in range(3)] == [False, True, True]

    asyncio.run(story())
