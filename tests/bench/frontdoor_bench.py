"""The front door: from an acknowledged allocation to its event at a client, alone and among a thousand; and List of a
full node. Real processes: device manager, front door, a plugin, and each client."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from protocols.messages.devices import AdmitPod, ContainerRequest
from protocols.process.settings import PodResourcesSettings
from protocols.process.tasks import awaited
from tests.bench.row import Row, at_least, at_most
from tests.support.device_node import RESOURCE, DeviceNode, until
from tests.support.pod_resources_client import Agent

DEVICES = 500
TURNS, WARM, ROUNDS = 200, 20, 3
PAUSE_S = 0.01
CROWD, CROWD_TURNS = 1000, 9
PODS, CONTAINERS = 110, 500
LISTS, RATE_S = 500, 3.0
FLOOD = 8000
FREE = PodResourcesSettings(qps=0, watchers_per_client=4096)


def run() -> list[Row]:
    return asyncio.run(_run())


async def _run() -> list[Row]:
    node = DeviceNode(pod_resources=FREE)
    await node.open()
    try:
        node.plugin("--resource", RESOURCE, "--devices", str(DEVICES))
        await node.settled(DEVICES, DEVICES)
        return [*await _latency(node), await _crowd(node), *await _list(node), await _beside_flood(node)]
    finally:
        await node.end()


@asynccontextmanager
async def role(*words: object) -> AsyncIterator[asyncio.StreamReader]:
    """One of frontdoor_roles, ready."""
    command = (sys.executable, "-m", "tests.bench.frontdoor_roles", *map(str, words))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, limit=1 << 26)
    assert process.stdout
    try:
        assert await asyncio.wait_for(process.stdout.readline(), 60) == b"ready\n"
        yield process.stdout
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def found(out: asyncio.StreamReader) -> Any:
    return json.loads(await asyncio.wait_for(out.readline(), 120))


async def _latency(node: DeviceNode) -> list[Row]:
    late, p99s, floors, hops = [], [], [], []
    for turn in range(ROUNDS):
        taken = await _taken(node, f"l{turn}")
        late.append(median(taken))
        p99s.append(quantiles(taken, n=100)[98])
        floors.append(await _floor(node))
        hops.append(await _hop(node))
    floor, hop = float(median(floors)), float(median(hops))
    name = "frontdoor: allocation acknowledged to event at a client"
    return [
        at_most(f"{name}, p50", late, "ms", 2 * floor + hop, floor),
        at_most(f"{name}, p99", p99s, "ms", 10.0, floor),
        Row("frontdoor: one hop of the bus, beside it", hop, "ms"),
    ]


async def _taken(node: DeviceNode, name: str) -> list[float]:
    """Milliseconds from the acknowledgement of each admission. An event may be there before it: 0."""
    acknowledged: dict[str, int] = {}
    async with role("watch", node.layout.pod_resources_socket, TURNS + WARM) as out:
        for number in range(TURNS + WARM):
            uid = f"{name}-{number}"
            await node.admit(uid, main={RESOURCE: 1})
            acknowledged[uid] = time.monotonic_ns()
            await asyncio.sleep(PAUSE_S)
            await node.release(uid)
            await asyncio.sleep(PAUSE_S)
        seen = await found(out)
    measured = list(acknowledged)[WARM:]
    return [max(0.0, (seen[uid] - acknowledged[uid]) / 1e6) for uid in measured]


async def _floor(node: DeviceNode) -> float:
    """A bare stream of grpc.aio: from the moment a message is made until the client has it, in milliseconds."""
    socket = node.root / "bare.sock"
    async with role("bare", socket, 0), role("watch", socket, TURNS) as out:
        seen = await found(out)
    return float(median((moment - int(sent)) / 1e6 for sent, moment in seen.items()))


async def _hop(node: DeviceNode) -> float:
    """A call over the bus and back, halved: an RPC of the device manager that does nothing."""
    taken = []
    for _ in range(200):
        began = time.perf_counter()
        await node.release("nobody")
        taken.append((time.perf_counter() - began) * 1000 / 2)
    return median(taken)


async def _crowd(node: DeviceNode) -> Row:
    """The median watcher of a thousand, and of several allocations the median."""
    acknowledged = []
    async with role("crowd", node.layout.pod_resources_socket, CROWD, 2 * CROWD_TURNS) as out:
        for number in range(CROWD_TURNS):
            await node.admit(f"c-{number}", main={RESOURCE: 1})
            acknowledged.append(time.monotonic_ns())
            await asyncio.sleep(0.3)
            await node.release(f"c-{number}")
            await asyncio.sleep(0.3)
        moments = (await found(out))[::2]
    medians = [(median(seen) - began) / 1e6 for seen, began in zip(moments, acknowledged, strict=True)]
    return at_most("frontdoor: the same at the median of 1,000 watchers", medians, "ms", 50.0)


async def _beside_flood(node: DeviceNode) -> Row:
    """The slowest List of one process while another has thousands of calls open; beside it, of a bare grpc.aio."""
    ours, bare = [], []
    for _ in range(ROUNDS):
        ours.append(await _slowest(node.layout.pod_resources_socket))
        async with role("bare", node.root / "bare.sock", 0):
            bare.append(await _slowest(node.root / "bare.sock"))
    name = f"frontdoor: List beside {FLOOD:,} calls of another process, slowest"
    return at_most(name, ours, "ms", 1000.0, median(bare))


async def _slowest(socket: Path) -> float:
    """Milliseconds of the slowest List during a flood."""
    agent, taken = Agent(socket), []
    await agent.list_all()
    async with role("flood", socket, FLOOD) as out:
        flood = awaited(found(out), "flood")
        while not flood.done():
            began = time.perf_counter()
            await agent.list_all()
            taken.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(PAUSE_S)
    await agent.close()
    return max(taken)


async def _list(node: DeviceNode) -> list[Row]:
    """110 pods with 500 containers, a device in each."""
    agent = Agent(node.layout.pod_resources_socket)
    for number in range(PODS):
        size = CONTAINERS * (number + 1) // PODS - CONTAINERS * number // PODS
        asked = tuple(ContainerRequest(f"container-{index}", "app", {RESOURCE: 1}) for index in range(size))
        await node.admit_pod(AdmitPod(uid=f"uid-{number}", namespace="default", name=f"pod-{number}", containers=asked))
    pods = await until("a full node", lambda: _listed(agent))
    size = sum(pod.ByteSize() for pod in pods)
    await agent.close()
    async with (
        role("bare", node.root / "bare.sock", size),
        role("lister", node.root / "bare.sock", LISTS, RATE_S) as out,
    ):
        bare = await found(out)
    async with role("lister", node.layout.pod_resources_socket, LISTS, RATE_S) as out:
        ours = await found(out)
    ms, floor = median(ours["taken"]) * 1000, median(bare["taken"]) * 1000
    return [
        at_most(f"frontdoor: List of 110 pods, 500 containers ({size // 1024} KiB), p50", [ms], "ms", 2.0, floor),
        at_least("frontdoor: such Lists, limits off", [ours["rate"]], "/s", 1000.0, bare["rate"]),
    ]


async def _listed(agent: Agent) -> Any:
    pods = await agent.list_all()
    return pods if len(pods) == PODS else None
