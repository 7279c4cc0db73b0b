"""When a simulated container ends, whatever the clock does."""

import asyncio
import time
from pathlib import Path

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
