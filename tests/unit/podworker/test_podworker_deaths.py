"""podworker dies at any moment of a pod's end: what the pod had is never lost, whatever reached the API by then."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from actors.podworker.pods.workers.worker import PodWorker, WorkerOptions
from protocols.kinds import views
from protocols.lifecycle.pods.types import read_pod
from protocols.lifecycle.status.device_health import held_in
from protocols.lifecycle.status.pod import overlay
from protocols.messages.devices import AdmitPod, AdmittedPod, ContainerGrant
from protocols.messages.health import (
    HeldContainer,
    HeldResource,
    PodHeld,
    PodResourceStatus,
    ResourceHealth,
    ResourceStatus,
)
from tests.support.podworker_fakes import UID, FakeDevices, FakeHealth, FakeStatuses, pod
from tests.support.podworker_scene import Scene, at_work

HAD = PodHeld((HeldContainer("a", (HeldResource("r/gpu", ("g1",)),)),))
TOLD = PodResourceStatus(UID, {"a": (ResourceStatus("r/gpu", (ResourceHealth("g1", "Healthy"),)),)})


class Devices(FakeDevices):
    """Durable: it remembers who holds what until the release."""

    def __init__(self, health: FakeHealth) -> None:
        super().__init__()
        self._health = health
        self.grants = {"a": ContainerGrant(held={"r/gpu": ("g1",)})}

    async def admit(self, request: AdmitPod) -> AdmittedPod:
        self._health.holds[UID] = HAD
        return await super().admit(request)

    async def release(self, uid: str) -> None:
        await super().release(uid)
        self._health.holds.pop(uid, None)


class Statuses(FakeStatuses):
    """The API takes what was published some time or other; what it did not take dies with podworker."""

    def __init__(self, api: views.PodStatus) -> None:
        super().__init__()
        self.api = api
        self.taken: views.PodStatus | None = None

    def take(self) -> None:
        if self.history and self.taken is not self.last:
            self.taken = self.last
            known = held_in(self.api)
            self.api |= overlay(self.api, self.last)
            assert known in (PodHeld(), held_in(self.api)), "the API forgot what the pod had"

    def settled(self, uid: str) -> bool:
        return not self.history or self.taken is self.last


class Node:
    """What outlives podworker, and one life of podworker after the other."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.dice = path, random.Random(seed)
        self.api: views.PodStatus = {"phase": "Pending"}
        self.first = Scene(path, self.raw())
        self.fake = self.first.fake
        self.fake.devices = Devices(self.fake.health)
        self.fake.runtime.exit_at_once["a"] = 1

    def raw(self) -> views.Pod:
        return pod(policy="Never", status=dict[str, Any](self.api))

    async def live(self, seconds: float) -> None:
        """One life: `seconds` long, or until all is told."""
        scene, fake = Scene(self.path, self.raw()), self.fake
        scene.fake, fake.statuses = fake, (statuses := Statuses(self.api))
        fake.health.over.clear()
        parts = {name: getattr(fake.deps, name) for name in fake.deps.__struct_fields__}
        deps = type(fake.deps)(**{**parts, "devices": fake.devices, "statuses": fake.statuses})
        scene.worker = PodWorker(WorkerOptions(read_pod(self.raw()), deps, lambda: "nodeplane", fence_ns=1))
        fake.runtime.changed = scene.changed
        async with at_work(scene):
            await self._play(scene, statuses, asyncio.get_running_loop().time() + seconds)

    async def _play(self, scene: Scene, statuses: Statuses, end: float) -> None:
        fake = self.fake
        while asyncio.get_running_loop().time() < end and not self.over():
            if self.dice.random() < 0.5:
                scene.worker.set_device_health(TOLD if UID in fake.health.holds or fake.health.over.get(UID) else None)
            if self.dice.random() < 0.5 and not statuses.settled(UID):
                statuses.take()
                scene.worker.update(pod(policy="Never", status=dict[str, Any](self.api)), own_change=True)
                scene.worker.wake()
            await asyncio.sleep(self.dice.choice((0, 0, 0.001, 0.003)))

    def over(self) -> bool:
        ended = self.fake.health.over.get(UID) == HAD and self.fake.statuses.settled(UID)
        return ended and self.api["phase"] == "Failed" and health_in(self.api) == [("g1", "Healthy")]


def health_in(status: views.PodStatus) -> list[tuple[str, str]]:
    entries = [
        entry for one in status.get("containerStatuses", ()) for entry in one.get("allocatedResourcesStatus", ())
    ]
    return [(device["resourceID"], device["health"]) for entry in entries for device in entry["resources"]]


@pytest.mark.parametrize("seed", range(40))
async def test_what_a_pod_had_outlives_podworker_whenever_it_dies(tmp_path: Path, seed: int) -> None:
    node = Node(tmp_path, seed)
    for _ in range(node.dice.randrange(1, 7)):
        await node.live(node.dice.uniform(0, 0.03))
    await node.live(15.0)
    assert node.over(), (node.api, node.fake.health.over, node.fake.health.holds)
    assert node.fake.devices.released
