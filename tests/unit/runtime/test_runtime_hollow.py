"""When a simulated container ends, whatever the clock does."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from actors.runtime.backends.hollow import HollowBackend
from actors.runtime.model.containers import (
    Container,
    ContainerRecord,
    ContainerState,
    Life,
    Sandbox,
    SandboxRecord,
)
from actors.runtime.model.pods import Clock
from actors.runtime.state.container_events import ContainerEvents
from actors.runtime.state.directory import StateDirectory
from actors.runtime.state.lifecycle import Lifecycle, wait_ended
from protocols.lifecycle.pods.hollow import HollowScript
from protocols.wire import cri_pb2 as pb

HOUR_NS = 3600 * 10**9


async def test_container_ends_in_time_after_a_step_of_the_clock_back(tmp_path: Path) -> None:
    backend = HollowBackend(Lifecycle(ContainerEvents(Clock(), 8)), StateDirectory(tmp_path))
    sandbox = Sandbox(SandboxRecord("s", 1, "boot", b""), pb.PodSandboxConfig())
    before_the_step = Life(created_at=time.time_ns() + HOUR_NS)
    record = ContainerRecord("c", "s", "boot", b"", before_the_step)
    container = Container(record, pb.ContainerConfig(), sandbox, HollowScript(duration_ns=10**7))
    await backend.start(container)
    assert container.life.state is ContainerState.RUNNING
    async with asyncio.timeout(2):
        assert await wait_ended(container, None)
    assert container.life.finished_at == before_the_step.created_at + 10**7


async def test_attached_client_stays_until_it_leaves(tmp_path: Path) -> None:
    backend = HollowBackend(Lifecycle(ContainerEvents(Clock(), 8)), StateDirectory(tmp_path))
    sandbox = Sandbox(SandboxRecord("s", 1, "boot", b""), pb.PodSandboxConfig())
    record = ContainerRecord("c", "s", "boot", b"", Life(created_at=1))
    container = Container(record, pb.ContainerConfig(), sandbox, HollowScript())
    pipes = [os.pipe() for _ in range(2)]
    async with backend.attach(container, (pipes[0][1], pipes[1][1])) as descriptor:
        assert descriptor == -1
        for readable, writable in pipes:
            os.close(writable)
            os.set_blocking(readable, False)
            with pytest.raises(BlockingIOError):
                os.read(readable, 1)
    for readable, _ in pipes:
        assert os.read(readable, 1) == b""
        os.close(readable)
