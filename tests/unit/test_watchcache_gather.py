"""Changes in quick succession wait for company, a lone one does not."""

import asyncio

import pytest

from actors.watchcache import feed as module
from actors.watchcache.feed import Feed
from actors.watchcache.options import WatchcacheOptions
from actors.watchcache.state import Change, State
from protocols.etcd import EtcdClient, EtcdOptions


class Held:
    """Stands for a Watch."""

    def __init__(self) -> None:
        self.times = 0

    def hold(self) -> None:
        self.times += 1


class Nobody:
    def tell(self, changes: list[Change]) -> None: ...

    def trouble(self, why: str) -> None: ...


class Clock:
    """Time passes only in sleep."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_only_what_follows_closely_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, watch = Clock(), Held()
    etcd = EtcdOptions(endpoints=("h:1",))
    options = WatchcacheOptions(etcd=etcd, gather=0.002)
    feed = Feed(options, EtcdClient(etcd), State(options), Nobody())
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "asyncio", clock)

    async def taken(after: float) -> bool:
        clock.now += after
        before = clock.now
        await feed._gather(watch)  # type: ignore[arg-type]  # Held has what is asked of it
        return clock.now > before

    async def story() -> list[bool]:
        return [await taken(after) for after in (0.0, 0.0005, 0.0005, 0.01, 0.0029, 0.0031)]

    assert asyncio.run(story()) == [False, True, True, False, True, False]
    assert watch.times == 3, "what waits is left to the kernel"
