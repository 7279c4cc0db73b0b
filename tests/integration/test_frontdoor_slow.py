"""A client that does not read: its stream ends, the others feel nothing."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import pytest
from prometheus_client import CollectorRegistry

from actors.frontdoor.allocatable import AllocatableFeed
from actors.frontdoor.journal import Journal
from actors.frontdoor.limiter import TokenBucket
from actors.frontdoor.lister import Lister, ListerOptions
from actors.frontdoor.metrics import FrontDoorMetrics
from actors.frontdoor.pods import PodFeed
from actors.frontdoor.server import PodResourcesServer, ServerOptions
from actors.frontdoor.watch import Watch, WatchOptions
from actors.frontdoor.watchers import Slots, Watchers
from protocols.bus import Event, Op
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, PodAllocation
from tests.support.device_node import until
from tests.support.pod_resources_client import Agent

BIG = "x" * (1 << 20)
LIMIT = 8


def serve(story: Callable[[PodFeed, Path], Awaitable[None]]) -> None:
    """The front door's server in this process, fed by hand, with short limits."""

    async def whole() -> None:
        directory = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
        slots, metrics = Slots(8), FrontDoorMetrics(CollectorRegistry())
        pods = PodFeed(Journal(16), Watchers(LIMIT, slots))
        allocatable = AllocatableFeed(Journal(16), Watchers(LIMIT, slots))
        pods.on_snapshot([], 1)
        lister = Lister(ListerOptions(pods, allocatable, metrics, TokenBucket(100, 10)))
        watch = Watch(WatchOptions("list_and_watch", "ListAndWatch", pods, metrics, True, 0.3))
        server = PodResourcesServer(ServerOptions(directory / "kubelet.sock", lister, watch, watch))
        await server.start()
        try:
            async with asyncio.timeout(30):
                await story(pods, directory / "kubelet.sock")
        finally:
            await server.stop(0)
            del server
            shutil.rmtree(directory)

    asyncio.run(whole())


def big_event(number: int) -> Event[PodAllocation]:
    device = AllocatedDevice("example.com/gpu", BIG)
    allocation = PodAllocation(f"p{number}", "d", f"p{number}", (ContainerAllocation("main", devices=(device,)),))
    return Event(Op.UPSERT, allocation.uid, allocation, mark=1 + number)


def test_a_client_that_never_reads_is_ended_alone() -> None:
    async def story(feed: PodFeed, socket: Path) -> None:
        deaf, reader = Agent(socket), Agent(socket)
        stuck, good = await deaf.watch(), await reader.watch()
        for number in range(1, 60):
            feed.on_event(big_event(number))
            assert (await good.next()).uid == f"p{number}"
        await until("the deaf one's end", lambda: len(feed.watchers) == 1)
        with pytest.raises(grpc.aio.AioRpcError, match="events behind") as ended:
            await stuck.take(59)
        assert ended.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await deaf.close()
        await reader.close()

    serve(story)


def test_a_slow_client_gets_all_that_was_queued_before_its_end() -> None:
    async def story(feed: PodFeed, socket: Path) -> None:
        agent = Agent(socket)
        watch = await agent.watch()
        for number in range(1, LIMIT + 10):  # in one turn of the loop: the queue is full before anything is sent
            feed.on_event(
                Event(Op.UPSERT, f"p{number}", PodAllocation(f"p{number}", "d", f"p{number}"), mark=1 + number)
            )
        assert [event.uid for event in await watch.take(LIMIT)] == [f"p{number}" for number in range(1, LIMIT + 1)]
        with pytest.raises(grpc.aio.AioRpcError, match="events behind"):
            await watch.next()
        await agent.close()

    serve(story)
