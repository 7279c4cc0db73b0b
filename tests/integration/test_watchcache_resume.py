"""Real store or etcd, watch cache and a follower on the bus. Who may be killed when, the simulation shows."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from protocols.bus import Bus, BusError, BusOptions, Event
from protocols.etcd.client import EtcdClient
from protocols.etcd.options import EtcdOptions
from protocols.messages.objects import DIGEST_KEY, FRESHEN, Freshen, ObjectEvent
from protocols.messages.supervisor import METRICS, Empty, MetricsText
from tests.integration.etcd_fixture import etcd_binary
from tests.support.store_lab import Lab, etcd_process, lab

POD = b"/registry/pods/ns/"


class Sink:
    """Keeps the revisions it was told, each once."""

    def __init__(self) -> None:
        self.mark = 0
        self.revisions: list[int] = []

    def on_snapshot(self, items: list[tuple[str, ObjectEvent]], mark: int) -> None:
        self.mark = mark

    def on_event(self, event: Event[ObjectEvent]) -> None:
        assert event.value is not None
        if event.key != DIGEST_KEY:
            self.revisions.append(event.value.rv)
        self.mark = max(self.mark, event.mark)

    def on_mark(self, mark: int) -> None:
        assert mark >= self.mark
        self.mark = mark

    def on_synced(self, synced: bool) -> None:
        pass

    async def reach(self, revision: int, within: float = 60.0) -> None:
        deadline = time.monotonic() + within
        while self.mark < revision:
            assert time.monotonic() < deadline, f"at {self.mark}, wanted {revision}"
            await asyncio.sleep(0.005)


class World:
    def __init__(self, lab: Lab, client: EtcdClient, bus: Bus) -> None:
        self.lab, self.client, self.bus = lab, client, bus

    def follow(self) -> Sink:
        sink = Sink()
        self.bus.follow(owner="watchcache", stream="objects/core/pods", sink=sink, type=ObjectEvent)
        return sink

    async def write(self, count: int) -> list[int]:
        return [await self.client.put(POD + b"p%d" % (n % 7), b'{"n":%d}' % n) for n in range(count)]


@asynccontextmanager
async def playing(*actors: str) -> AsyncIterator[World]:
    with lab(*(actors or ("store", "watchcache"))) as made:
        client = EtcdClient(EtcdOptions(endpoints=(made.target,), timeout=40.0))
        bus = Bus(BusOptions(name="", run_dir=made.root / "run"))
        await client.start()
        await bus.start()
        try:
            yield World(made, client, bus)
        finally:
            await client.close()
            await bus.close()


async def test_freshen_many_callers_is_quick_and_bounded() -> None:
    async with playing() as world:
        revision = await world.client.put(b"/elsewhere", b"x")
        sink = world.follow()
        ask = Freshen(revision)
        await world.bus.call("watchcache", FRESHEN, ask, Empty, timeout=30.0, idempotent=True)
        await sink.reach(revision)
        begun = time.monotonic()
        with pytest.raises(BusError) as caught:
            await world.bus.call("watchcache", FRESHEN, Freshen(revision + 1000), Empty, timeout=40.0)
        assert caught.value.code == "DEADLINE_EXCEEDED"
        assert 2.5 < time.monotonic() - begun < 30


async def test_watchcache_store_late_serves_upstreams_metrics() -> None:
    async with playing("watchcache") as world:
        await asyncio.sleep(0.3)
        world.lab.start("store")
        sink = world.follow()
        await sink.reach((await world.write(3))[-1])
        text = (await world.bus.call("watchcache", METRICS, Empty(), MetricsText, timeout=30.0)).text
        assert 'watch_cache_capacity{group="",resource="pods"} 100' in text
        assert 'apiserver_watch_cache_initializations_total{group="",resource="pods"} 1' in text
        assert 'etcd_bookmark_total{group="coordination.k8s.io",resource="leases"}' in text


async def test_watchcache_on_etcd_serves() -> None:
    # Debian's 3.4.23 answers progress requests ahead of the events they speak of: it must not be asked.
    with etcd_process(etcd_binary()) as target, lab(store_endpoints=(target,), store_embedded=False) as made:
        made.start("watchcache")
        client = EtcdClient(EtcdOptions(endpoints=(target,)))
        bus = Bus(BusOptions(name="", run_dir=made.root / "run"))
        await client.start()
        await bus.start()
        world = World(made, client, bus)
        sink = world.follow()
        written = await world.write(10)
        await sink.reach(written[-1])
        await asyncio.to_thread(made.restart, "watchcache")
        written += await world.write(10)
        await sink.reach(written[-1])
        assert written[10:] == sink.revisions[-10:]
        await client.close()
        await bus.close()
