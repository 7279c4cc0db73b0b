"""A disk that takes no more bytes, for the runtime or for a shim: errors with the reason, and no exit code is lost."""

import os
import resource
import signal
from collections.abc import Awaitable
from typing import Any

import grpc
import pytest

from protocols.wire import cri_pb2 as pb
from tests.support.runtime import RuntimeProcess, alive
from tests.support.waiting import until_true


def fill_disk_of(pid: int, full: bool = True) -> None:
    """No file of that process can grow."""
    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0 if full else most, most))


async def refused(awaitable: Awaitable[Any]) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="cannot write") as caught:
        await awaitable
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_the_runtime_on_a_full_disk_changes_nothing_and_goes_on_afterwards() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox("p")
        running = await runtime.run(sandbox, "sleep", "500", name="a")
        created = await runtime.create(sandbox, "sleep", "500", name="b")
        fill_disk_of(runtime.pid)
        await refused(runtime.sandbox("q"))
        await refused(runtime.create(sandbox, "true", name="c"))
        await refused(runtime.call("StartContainer", container_id=created))
        await refused(runtime.call("UpdateContainerResources", container_id=running))
        assert (await runtime.status(created)).state == pb.CONTAINER_CREATED
        assert (await runtime.status(running)).state == pb.CONTAINER_RUNNING
        await runtime.call("StopContainer", container_id=running, timeout=10)
        assert (await runtime.status(running)).exit_code == 143
        fill_disk_of(runtime.pid, False)
        await runtime.call("StartContainer", container_id=created)
        await runtime.sandbox("q")
        await runtime.create(sandbox, "true", name="c")


async def test_a_shim_on_a_full_disk_keeps_the_exit_code_until_it_is_written() -> None:
    async with RuntimeProcess() as runtime:
        id = await runtime.run(await runtime.sandbox(), "sleep", "500")
        shim, pid = await runtime.shim(id), runtime.started(id)["pid"]
        fill_disk_of(shim)
        os.kill(pid, signal.SIGTERM)
        assert (await runtime.ended(id)).exit_code == 143
        await runtime.kill()
        await runtime.start()
        finished = (await runtime.ended(id)).finished_at
        assert alive(shim)
        fill_disk_of(shim, False)
        await until_true(lambda: not alive(shim))
        await runtime.kill()
        await runtime.start()
        status = await runtime.status(id)
        assert (status.exit_code, status.finished_at) == (143, finished)
