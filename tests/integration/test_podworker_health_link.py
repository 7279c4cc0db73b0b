"""Who holds what, as podworker hears it from the device manager: silence and lateness are not taken for nothing."""

import asyncio
import tempfile
from pathlib import Path

import pytest

from actors.podworker.clients import bus as link
from actors.podworker.clients.bus import DeviceHealthClient
from protocols.bus import Bus, BusOptions, Op, StateSource, Unavailable
from protocols.messages import devices, health
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, PodAllocation
from protocols.messages.health import HeldContainer, HeldResource, PodHeld

HELD = PodHeld((HeldContainer("main", (HeldResource("example.com/gpu", ("gpu-0",)),)),))


def allocation(uid: str) -> PodAllocation:
    device = AllocatedDevice(resource="example.com/gpu", id="gpu-0")
    containers = (ContainerAllocation(name="main", devices=(device,)),)
    return PodAllocation(uid=uid, namespace="default", name=uid, containers=containers)


async def test_silence_and_lateness_are_not_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "HEARD_S", 0.1)

    with tempfile.TemporaryDirectory(prefix="np", dir="/tmp") as directory:
        run = Path(directory)
        bus, owner = Bus(BusOptions(name="podworker", run_dir=run)), Bus(BusOptions(name="devices", run_dir=run))
        await bus.start()
        following = DeviceHealthClient(True)
        following.start(bus)
        try:
            with pytest.raises(Unavailable):
                await following.held("a", admitted=False)
            known = {"a": allocation("a")}
            await owner.start()
            stream = owner.own(devices.ALLOCATIONS, StateSource(known))
            monkeypatch.setattr(link, "HEARD_S", 60.0)
            assert await following.held("a", admitted=False) == HELD
            assert await following.held("b", admitted=False) == PodHeld()
            monkeypatch.setattr(link, "LATE_S", 60.0)
            late = asyncio.create_task(following.held("b", admitted=True))
            await asyncio.sleep(0.05)
            known["b"] = allocation("b")
            stream.publish(Op.UPSERT, "b", known["b"])
            assert await late == HELD
            monkeypatch.setattr(link, "LATE_S", 0.05)
            assert await following.held("c", admitted=True) == PodHeld()
        finally:
            await bus.close()
            await owner.close()
    assert await DeviceHealthClient(False).held("a", admitted=True) == PodHeld()


async def test_pods_synced_before_health_arrived_are_synced_again() -> None:
    with tempfile.TemporaryDirectory(prefix="np", dir="/tmp") as directory:
        run = Path(directory)
        bus, owner = Bus(BusOptions(name="podworker", run_dir=run)), Bus(BusOptions(name="health", run_dir=run))
        await bus.start()
        heard = asyncio.Event()
        following = DeviceHealthClient(True)
        following.subscribe(lambda *change: None, heard.set)
        following.start(bus)
        try:
            assert not following.synced
            await owner.start()
            owner.own(health.RESOURCE_STATUS, StateSource({}))
            async with asyncio.timeout(60):
                await heard.wait()
            assert following.synced
        finally:
            await bus.close()
            await owner.close()
