"""The client package over a real socket, with and without asyncio, across an end of the server."""

import asyncio
import threading
from collections.abc import Iterator

import grpc
import pytest

from protocols.bus import Event, Op
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, Device, PodAllocation
from protocols.podresources import (
    Action,
    BlockingPodResources,
    PodEvent,
    PodResources,
    WatchOptions,
    WatchUnsupported,
)
from tests.support.device_node import until
from tests.support.front_door import Door, DoorLimits, running_front_door


def pod(name: str, *ids: str) -> PodAllocation:
    devices = tuple(AllocatedDevice("example.com/gpu", id, (0,)) for id in ids)
    return PodAllocation(f"uid-{name}", "default", name, (ContainerAllocation("main", devices=devices),))


def change(door: Door, name: str, *ids: str, gone: bool = False) -> None:
    mark = door.pods.journal.position + 1
    value = None if gone else pod(name, *ids)
    door.pods.on_event(Event(Op.DELETE if gone else Op.UPSERT, f"uid-{name}", value, mark=mark))


async def test_ten_lines_are_enough() -> None:
    async with running_front_door() as door:
        change(door, "a", "g0")
        door.allocatable.on_snapshot([("example.com/gpu g0", Device("example.com/gpu", "g0", (0,)))], 0)
        async with PodResources(door.socket) as node:
            [listed] = await node.list()
            assert listed.containers == pod("a", "g0").containers
            assert await node.get("default", "a") == listed
            assert [item.id for item in (await node.allocatable()).devices] == ["g0"]
            events = node.watch()
            assert await anext(events) == PodEvent(Action.ADDED, pod("a", "g0"))
            change(door, "a", gone=True)
            assert await anext(events) == PodEvent(Action.DELETED, PodAllocation("uid-a", "default", "a"))
            with pytest.raises(grpc.aio.AioRpcError):
                await node.get("default", "a")


async def test_a_watch_goes_on_when_its_stream_ends() -> None:
    """Too slow once, and gone once: each change is told once, in order."""

    async with running_front_door(DoorLimits(queue=8)) as door:
        said: list[str] = []
        async with PodResources(door.socket) as node:
            events = node.watch(WatchOptions(snapshot=False, on_break=said.append))
            first = asyncio.ensure_future(anext(events))
            await until("the watch", lambda: len(door.pods.watchers) == 1)
            change(door, "p0")
            assert (await first).pod.name == "p0"
            for number in range(1, 40):  # in one turn of the loop: more than the queue takes
                change(door, f"p{number}")
            names = [(await anext(events)).pod.name for _ in range(39)]
            assert names == [f"p{number}" for number in range(1, 40)]
            door.pods.watchers.end_all()
            following = asyncio.ensure_future(anext(events))
            change(door, "last")
            assert (await following).pod.name == "last"
            assert said == [
                "watch interrupted (RESOURCE_EXHAUSTED); connecting again",
                "watch interrupted (UNAVAILABLE); connecting again",
            ]


async def test_without_asyncio() -> None:
    async with running_front_door() as door:
        change(door, "a", "g0")
        node = BlockingPodResources(door.socket)
        seen: list[PodEvent] = []
        thread = threading.Thread(target=collect, args=(node.watch(), seen))
        thread.start()
        await until("the snapshot", lambda: len(seen) == 1)
        change(door, "b")
        await until("an event", lambda: len(seen) == 2)
        assert [item.name for item in await asyncio.to_thread(node.list)] == ["a", "b"]
        assert (await asyncio.to_thread(node.get, "default", "a")).containers == seen[0].pod.containers
        assert (await asyncio.to_thread(node.allocatable)).devices == ()
        node.close()
        await asyncio.to_thread(thread.join, 60)
        assert not thread.is_alive()
        assert [(event.action, event.pod.name) for event in seen] == [(Action.ADDED, "a"), (Action.ADDED, "b")]


async def test_close_ends_a_watch_that_another_task_reads() -> None:
    async with running_front_door() as door:
        change(door, "a", "g0")
        node, seen = PodResources(door.socket), list[str]()

        async def read() -> None:
            async for event in node.watch():
                seen.append(event.pod.name)

        reading = asyncio.create_task(read())
        await until("the snapshot", lambda: seen == ["a"])
        await node.close()
        await asyncio.wait([reading])
        assert not reading.cancelled()
        await reading


def collect(events: Iterator[PodEvent], seen: list[PodEvent]) -> None:
    for event in events:
        seen.append(event)


async def test_a_server_without_the_watch_says_so() -> None:
    async with running_front_door(DoorLimits(enabled=False)) as door, PodResources(door.socket) as node:
        with pytest.raises(WatchUnsupported, match="nodeplane adopt"):
            async for _ in node.watch():
                pass
