"""Figures of the device manager: admissions and releases a second on disk, and how long 10,000 devices take to show."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from protocols.process.files import write_atomic
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.methods import unix_channel
from protocols.wire.plugins import ALLOCATE
from tests.bench.plane_bench import cpu_seconds
from tests.bench.row import Row, at_least, at_most
from tests.support.device_node import RESOURCE, DeviceNode, until
from tests.support.stub_plugin import StubPlugin, device

WORKERS, DEVICES, SECONDS = 110, 256, 5.0
RATE = 1000.0
MANY, MANY_LIMIT_S, TRIES = 10_000, 1.0, 5


def allocations() -> list[Row]:
    """Pods that take a device and give it back, many at a time; floor: Allocate of that plugin alone."""
    return asyncio.run(_allocations())


async def _allocations() -> list[Row]:
    node = DeviceNode(actors=("devices",))
    await node.open()
    node.plugin("--resource", RESOURCE, "--devices", str(DEVICES))
    await node.settled(DEVICES, DEVICES)
    floor = await _bare(next(node.layout.device_plugins.glob("example.com-gpu-*.sock")))
    before = cpu_seconds([node.processes["devices"].pid])
    rates = [await _churn(node) for _ in range(3)]
    spent = cpu_seconds([node.processes["devices"].pid]) - before
    synced = _fsyncs(node.root)
    await node.close()
    return [
        at_least("devices.allocations: pods admitted and released, on disk", rates, "/s", RATE, floor),
        at_most("devices.allocations: CPU of the manager for each", [1000 * spent / (sum(rates) * SECONDS)], "ms", 1.0),
        at_least("devices.allocations: whole files this disk makes durable", [synced], "/s", 0.0),
    ]


async def _churn(node: DeviceNode) -> float:
    done, ends = 0, time.perf_counter() + SECONDS

    async def work(number: int) -> None:
        nonlocal done
        turn = 0
        while time.perf_counter() < ends:
            turn += 1
            uid = f"pod-{number}-{turn}"
            await node.admit(uid, main={RESOURCE: 1})
            await node.release(uid)
            done += 1

    began = time.perf_counter()
    await asyncio.gather(*map(work, range(WORKERS)))
    return done / (time.perf_counter() - began)


async def _bare(socket: Path) -> float:
    """Allocate a second, by as many callers."""
    done, ends = 0, time.perf_counter() + 2
    request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=["gpu-0"])])

    async def work(call: Callable[[pb.AllocateRequest], Awaitable[pb.AllocateResponse]]) -> None:
        nonlocal done
        while time.perf_counter() < ends:
            await call(request)
            done += 1

    async with unix_channel(socket) as channel:
        call = ALLOCATE.unary(channel)
        await asyncio.gather(*(work(call) for _ in range(WORKERS)))
    return done / 2


def _fsyncs(directory: Path) -> float:
    """Files of the checkpoint's size written and synced a second: what group commit shares."""
    data, done, ends = os.urandom(50_000), 0, time.perf_counter() + 2
    while time.perf_counter() < ends:
        write_atomic(directory / "synced", data)
        done += 1
    return done / 2


def registration() -> list[Row]:
    """From Register of a plugin with 10,000 devices until a follower of the device manager sees them allocatable."""
    return asyncio.run(_registration())


async def _registration() -> list[Row]:
    node = DeviceNode(actors=("devices", "frontdoor"))
    await node.open()
    times = [await _register(node, number) for number in range(TRIES)]
    await node.close()
    return [at_most(f"devices.registration: {MANY} devices, Register to allocatable", times, "s", MANY_LIMIT_S)]


async def _register(node: DeviceNode, number: int) -> float:
    resource = f"example.com/many-{number}"
    plugin: StubPlugin = node.stub(resource, f"many-{number}.sock")
    plugin.devices = [device(f"device-{at}", numa=at % 2) for at in range(MANY)]
    await plugin.serve()
    began = time.perf_counter()
    await plugin.register()
    await until("all of them", lambda: node.figures(resource) == (MANY, MANY), timeout=120)
    return time.perf_counter() - began
