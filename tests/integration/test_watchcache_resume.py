"""Real store, watch cache and a follower on the bus; anything may be killed, no event is missing."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from protocols.bus import Bus, BusError, BusOptions, Event
from protocols.etcd import Compacted, EtcdClient, EtcdOptions
from protocols.messages.objects import DIGEST_KEY, FRESHEN, Freshen, ObjectEvent
from protocols.messages.supervisor import METRICS, Empty, MetricsText
from tests.integration.etcd_fixture import etcd_binary
from tests.support.store_lab import Lab, etcd_process, lab

POD = b"/registry/pods/ns/"


class Sink:
    """Keeps the revisions it was told, each once."""

    def __init__(self) -> None:
        self.mark = 0
        self.snapshots: list[list[tuple[str, ObjectEvent]]] = []
        self.revisions: list[int] = []

    def on_snapshot(self, items: list[tuple[str, ObjectEvent]], mark: int) -> None:
        self.snapshots.append(items)
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

    def follow(self, resource: str = "pods") -> Sink:
        sink = Sink()
        self.bus.follow(owner="watchcache", stream=f"objects/core/{resource}", sink=sink, type=ObjectEvent)
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


async def test_watchcache_killed_or_store_killed_loses_no_event() -> None:
    async with playing() as world:
        await world.client.put(b"/registry/minions/n1", b"{}")
        sink, quiet = world.follow(), world.follow("secrets")
        await sink.reach(2)
        expected: list[int] = []
        for victim in ("watchcache", "store"):
            expected += await world.write(20)
            await asyncio.to_thread(world.lab.restart, victim)
            expected += await world.write(20)
            await sink.reach(expected[-1])
        assert sink.revisions == expected
        assert len(sink.snapshots) == 1, "a follower resumes by its mark, without a snapshot"
        await quiet.reach(expected[-1])  # every stream's mark follows the global revision


async def test_watchcache_restarted_gives_new_follower_history() -> None:
    async with playing() as world:
        written = await world.write(30)
        first = world.follow()
        await first.reach(written[-1])
        await asyncio.to_thread(world.lab.restart, "watchcache")
        await world.bus.close()
        world.bus = Bus(BusOptions(name="", run_dir=world.lab.root / "run"))
        await world.bus.start()
        late = world.follow()
        await late.reach(written[-1])
        told = [event.rv for key, event in late.snapshots[0] if key.startswith("@") and event.type != "FLOOR"]
        assert told == written
        await world.bus.close()


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


async def test_watchcache_dead_during_compaction_loses_history_only() -> None:
    async with playing() as world:
        await world.write(20)
        sink = world.follow()
        await sink.reach(21)
        await asyncio.to_thread(world.lab.kill, "watchcache")
        written = await world.write(20)
        await world.client.compact(written[-3])
        with pytest.raises(Compacted):
            async with world.client.watch(POD, 2) as watch:
                await anext(watch)
        world.lab.start("watchcache")
        await sink.reach(written[-1])
        assert len(sink.snapshots) == 2
        floor = next(event.rv for key, event in sink.snapshots[1] if event.type == "FLOOR")
        assert floor == written[-3]
        stored = {key: event.rv for key, event in sink.snapshots[1] if event.type == "STORED"}
        assert sorted(stored.values()) == written[-7:]


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


async def test_watchcache_frozen_during_compaction_sends_difference() -> None:
    async with playing() as world:
        await world.write(20)
        sink = world.follow()
        await sink.reach(21)
        world.lab.signal("watchcache", signal.SIGSTOP)
        await asyncio.to_thread(world.lab.restart, "store")
        written = await world.write(20)
        deleted = await world.client.delete_if_revision(POD + b"p5", written[-1])
        assert deleted.ok
        await world.client.compact(deleted.revision)
        world.lab.signal("watchcache", signal.SIGCONT)
        await sink.reach(deleted.revision)
        assert sink.revisions[-1] == deleted.revision
        assert sorted(sink.revisions) == sink.revisions
        assert set(sink.revisions[-7:]) == {*written[-7:-1], deleted.revision}


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
