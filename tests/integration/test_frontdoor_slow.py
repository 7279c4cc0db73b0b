"""A client that does not read: its stream ends, the others feel nothing (S39)."""

import grpc
import pytest

from protocols.bus import Event, Op
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, PodAllocation
from tests.support.device_node import until
from tests.support.front_door import DoorLimits, running_front_door
from tests.support.pod_resources_client import Agent

BIG = "x" * (1 << 20)
LIMIT = 8
SHORT = DoorLimits(queue=LIMIT)


def big_event(number: int) -> Event[PodAllocation]:
    device = AllocatedDevice("example.com/gpu", BIG)
    allocation = PodAllocation(f"p{number}", "d", f"p{number}", (ContainerAllocation("main", devices=(device,)),))
    return Event(Op.UPSERT, allocation.uid, allocation, mark=1 + number)


async def test_client_never_reads_is_ended_alone() -> None:
    async with running_front_door(SHORT) as door:
        deaf, reader = Agent(door.socket), Agent(door.socket)
        stuck, good = await deaf.watch(), await reader.watch()
        for number in range(1, 60):
            door.pods.on_event(big_event(number))
            assert (await good.next()).uid == f"p{number}"
        await until("the deaf one's end", lambda: len(door.pods.watchers) == 1)
        with pytest.raises(grpc.aio.AioRpcError, match="events behind") as ended:
            await stuck.take(59)
        assert ended.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert any("method=ListAndWatch code=RESOURCE_EXHAUSTED" in line for line in door.access.lines)
        await deaf.close()
        await reader.close()


async def test_client_slow_gets_queue_before_end() -> None:
    async with running_front_door(SHORT) as door:
        agent = Agent(door.socket)
        watch = await agent.watch()
        for number in range(1, LIMIT + 10):  # in one turn of the loop: the queue is full before anything is sent
            door.pods.on_event(
                Event(Op.UPSERT, f"p{number}", PodAllocation(f"p{number}", "d", f"p{number}"), mark=1 + number)
            )
        assert [event.uid for event in await watch.take(LIMIT)] == [f"p{number}" for number in range(1, LIMIT + 1)]
        with pytest.raises(grpc.aio.AioRpcError, match="events behind"):
            await watch.next()
        await agent.close()
