"""Ten thousand devices whose binding conditions never come true: who waits for them delays nobody else."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protocols.kube.meta import Object
from tests.support.memory_api import MemoryApi
from tests.support.scheduler_life import (
    Life,
    bound,
    devices,
    events_of,
    held_by_all,
    put_claim,
    put_class,
    put_node,
    put_pod,
    put_slice,
    slow,
    until,
)

NODES, EACH = 80, 128
PODS, COUNT = 50, 32
"""More pods than binding cycles run at once, with as many devices as a claim may have."""
LONGEST_TURN_S = 0.25
"""CPU of one turn of the event loop, the API in memory included."""


class Turns:
    """The longest turn of the event loop in seconds of CPU: other processes of a busy machine do not count."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def run(self) -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            self.longest = max(self.longest, time.thread_time() - began)


@asynccontextmanager
async def turns() -> AsyncIterator[Turns]:
    made = Turns()
    running = asyncio.get_running_loop().create_task(made.run())
    try:
        yield made
    finally:
        running.cancel()


def late(count: int) -> list[Object]:
    return [slow(f"dev-{at}") for at in range(count)]


async def test_pods_that_wait_for_devices_without_end_delay_nobody() -> None:
    api = MemoryApi()
    put_class(api, "late", 'device.driver == "d.example.com"')
    put_class(api, "gpu", 'device.driver == "e.example.com"')
    for at in range(NODES):
        put_node(api, f"n{at}")
        put_slice(api, f"n{at}", *late(EACH))
        put_slice(api, f"n{at}", *devices(1), driver="e.example.com")
    async with asyncio.timeout(240), Life(api) as life:
        put_pod(api, "first")
        await until("all is known", lambda: bound(api) == ["first"], timeout=120)
        async with turns() as seen:
            for at in range(PODS):
                put_claim(api, f"late-{at}", deviceClassName="late", count=COUNT)
                put_pod(api, f"late-{at}", f"late-{at}")
            for at in range(10):
                put_claim(api, f"gpu-{at}")
                put_pod(api, f"gpu-{at}", f"gpu-{at}")
                put_pod(api, f"plain-{at}")
            await until("others are placed", lambda: len(bound(api)) == 21, timeout=180)
            await until("all wait", lambda: life.scheduler._devices.binding.waiting == PODS, timeout=180)
            put_pod(api, "last")
            await until("one more is placed", lambda: "last" in bound(api))
        assert not any(name.startswith("late") for name in bound(api))
        assert len(held_by_all(api)) == PODS * COUNT + 10
        assert len(events_of(life, "BindingConditionsPending")) == PODS
    assert seen.longest < LONGEST_TURN_S
