"""The path of a container event, runtime -> cri -> pleg -> a follower, beside a bare grpc.aio client on the stream.

Also the document's stress test with simulated containers. What is used when nothing happens: pleg_idle.py.
"""

import asyncio
import sys
import time
from statistics import quantiles
from typing import Any

import uvloop

from protocols.wire import cri_pb2 as pb
from tests.bench.pleg_idle import cpu_ns
from tests.bench.row import Row, at_most
from tests.support.pleg_node import PlegNode
from tests.support.runtime import RuntimeProcess

EVENTS_PER_S = 500
LIFE_EVENTS = 4
SECONDS = 8.0
SETTLED_S = 3.0
"""The longest an event may take to be counted."""
KINDS = {pb.CONTAINER_STARTED_EVENT: "ContainerStarted", pb.CONTAINER_STOPPED_EVENT: "ContainerDied"}


def run() -> list[Row]:
    return uvloop.run(latency()) + uvloop.run(stress())


class Bare:
    """The floor: nothing but the stream, read and decoded."""

    def __init__(self, runtime: RuntimeProcess) -> None:
        self._runtime = runtime
        self.created: dict[tuple[str, str], int] = {}
        self.at: dict[tuple[str, str], int] = {}

    async def run(self) -> None:
        call: Any = await self._runtime.events()
        async for event in call:
            if kind := KINDS.get(event.container_event_type):
                self.created[(event.container_id, kind)] = event.created_at
                self.at[(event.container_id, kind)] = time.time_ns()


async def load(runtime: RuntimeProcess, pods: int, per_second: float, seconds: float) -> int:
    arguments = [str(runtime.socket), str(pods), str(per_second), str(seconds)]
    command = [sys.executable, "-m", "tests.bench.pleg_load", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return int(out)


def percentiles(created: dict[tuple[str, str], int], at: dict[tuple[str, str], int]) -> tuple[float, float]:
    """p50 and p99 in milliseconds."""
    ages = [(at[key] - stamp) / 1e6 for key, stamp in created.items() if key in at]
    cuts = quantiles(ages, n=100)
    return cuts[49], cuts[98]


async def latency() -> list[Row]:
    async with RuntimeProcess() as runtime, PlegNode(runtime.settings) as node:
        await node.until(lambda: node.state.healthy and node.state.mode == "evented")
        bare = Bare(runtime)
        reading = asyncio.ensure_future(bare.run())
        await load(runtime, 40, EVENTS_PER_S / LIFE_EVENTS, SECONDS)
        await asyncio.sleep(0.5)
        reading.cancel()
        p50, p99 = percentiles(bare.created, node.heard.at)
        floor50, floor99 = percentiles(bare.created, bare.at)
        lost = sum(key not in node.heard.at for key in bare.created)
    name = f"pleg event to lifecycle, {EVENTS_PER_S}/s"
    ratio = p50 / floor50
    return [
        Row(f"{name}, p50", p50, "ms", floor50, "<= 2 x floor", ratio <= 2),
        at_most(f"{name}, p99", [p99], "ms", 10, floor99),
        Row(f"{name}, lost", lost, "events", None, "0", lost == 0),
    ]


async def stress() -> list[Row]:
    """As fast as possible; the result counts only when no event took a second and none was missed or lost."""
    async with RuntimeProcess() as runtime, PlegNode(runtime.settings) as node:
        await node.until(lambda: node.state.healthy and node.state.mode == "evented")
        pids = [runtime.pid, *(process.pid for process in node.processes.values())]
        used = sum(map(cpu_ns, pids))
        made = await load(runtime, 40, 0, SECONDS)
        used = sum(map(cpu_ns, pids)) - used
        await asyncio.sleep(SETTLED_S)
        heard = await node.metric("pleg", "evented_pleg_notifications_received")
        _, slow = await node.aged()
        missed = await node.metric("pleg", 'kube_pod_missed_events{cause="runtime"')
    rate, lost = made * LIFE_EVENTS / SECONDS, made * LIFE_EVENTS + 2 * 40 - heard
    return [
        Row("pleg stress, sustained", rate, "events/s", None, ">= 2000", rate >= 2000 and not slow),
        Row("pleg stress, events older than 1 s", slow, "events", None, "0", slow == 0),
        Row("pleg stress, missed or lost", missed + lost, "events", None, "0", not missed and not lost),
        Row("pleg stress, CPU of runtime+cri+pleg", used / 1000 / (made * LIFE_EVENTS), "us/event"),
    ]
