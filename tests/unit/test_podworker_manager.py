import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.podworker.model.errors import PodInvalid
from actors.podworker.model.types import read_pod
from actors.podworker.pods.manager import ManagerOptions, PodManager
from tests.support.podworker_fakes import FakeDependencies, container, pod


@asynccontextmanager
async def running_manager(tmp_path) -> AsyncIterator[Any]:
    fake = FakeDependencies(tmp_path)
    options = ManagerOptions(fake.deps, lambda: "nodeplane", lambda uid: None, started_ns=0)
    manager = PodManager(options)
    fake.runtime.changed = lambda uid: asyncio.get_running_loop().call_soon(told, uid)

    def told(uid):
        from protocols.bus import Op

        fake.pleg.deliver(uid)
        manager.on_status(Op.UPSERT, uid, fake.pleg.known(uid), None)

    try:
        yield fake, manager
    finally:
        manager.close()


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 # many unlike things are waited for
            await asyncio.sleep(0.002)


async def test_nothing_is_done_before_begin(tmp_path):
    async with running_manager(tmp_path) as (fake, manager):
        manager.on_add(pod())
        await asyncio.sleep(0.02)
        assert not fake.runtime.calls
        manager.begin([])
        await until(lambda: fake.runtime.running("a"))
        assert manager.active() == ("uid-1",)


async def test_a_name_taken_again_is_another_pod(tmp_path):
    async with running_manager(tmp_path) as (fake, manager):
        manager.begin([])
        manager.on_add(pod())
        await until(lambda: fake.runtime.running("a"))
        manager.on_delete(pod())
        manager.on_add(pod(uid="uid-2"))
        await until(lambda: [c.uid for c in fake.runtime.running("a")] == ["uid-2"])
        await until(lambda: fake.devices.released == ["uid-1"])  # a step after its container's end


async def test_ended_pods_hold_no_devices(tmp_path):
    async with running_manager(tmp_path) as (_fake, manager):
        manager.on_add(pod(status={"phase": "Succeeded"}))
        manager.on_add(pod(uid="uid-2"))
        assert manager.active() == ("uid-2",)


async def test_an_unreadable_pod_disturbs_no_other(tmp_path):
    bad = pod(container("a"), uid="bad")
    bad["spec"]["containers"] = ["not a container"]
    with pytest.raises(PodInvalid):
        read_pod(bad)

    async with running_manager(tmp_path) as (fake, manager):
        manager.begin([])
        manager.on_add(bad)
        manager.on_add(pod())
        await until(lambda: fake.runtime.running("a"))
        manager.on_update(pod(), {**bad, "metadata": pod()["metadata"]})
        assert len(fake.runtime.running("a")) == 1
