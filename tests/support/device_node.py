"""The device side of a node alone: `devices` and `frontdoor` as real processes, the test plays podworker on the bus."""

import asyncio
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import grpc.aio

from protocols.bus import Bus, BusOptions, Op, Replica
from protocols.messages import devices as messages
from protocols.messages.devices import (
    AdmitPod,
    AdmittedPod,
    ChaosDevice,
    ContainerRequest,
    Empty,
    PodAllocation,
    PreStart,
    ReconcilePods,
    ReleasePod,
    ResourceInventory,
)
from protocols.process.layout import Layout
from protocols.process.settings import save_settings
from protocols.wire.methods import unix_channel
from tests.support.actor_process import Process, start_actor
from tests.support.commands import start_command
from tests.support.settings import plane_settings
from tests.support.stub_plugin import StubPlugin
from tests.support.waiting import until_async

R = TypeVar("R")
RESOURCE = "example.com/gpu"


@asynccontextmanager
async def running_node(**settings: Any) -> AsyncIterator["DeviceNode"]:
    """Run one test's story on a node of its own; nothing of it is left afterwards."""

    node = DeviceNode(**settings)
    try:
        async with asyncio.timeout(100):
            await node.open()
            yield node
    except BaseException:
        node.show_logs()
        await node.end()
        raise
    await node.close()


until = until_async


def figures(view: ResourceInventory) -> tuple[int, int]:
    healthy = [device for device in view.devices if device.health == messages.HEALTHY]
    return len(healthy) if view.connected else 0, len(view.devices)


class DeviceNode:
    def __init__(self, actors: tuple[str, ...] = ("devices", "frontdoor"), **settings: Any) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
        self.layout = Layout(root=self.root, kubelet=self.root / "kubelet")
        self.processes: dict[str, Process] = {}
        self._actors = actors
        self.expected_codes: set[int] = set()
        self._stubs: list[StubPlugin] = []
        self.layout.run.mkdir(mode=0o700)
        save_settings(self.layout.settings, plane_settings(self.root, **settings))
        self.bus = Bus(BusOptions(name="", run_dir=self.layout.run))
        self.seen: dict[str, list[tuple[int, int]]] = {}
        """Every (allocatable, capacity) of each resource, as the stream told them."""
        self.resources = Replica[ResourceInventory](self._on_resource)
        self.allocations = Replica[PodAllocation]()

    async def open(self) -> None:
        await self.bus.start()
        for actor in self._actors:
            self.start(actor)
        follow = self.bus.follow
        self._resources = follow(owner="devices", stream=messages.DEVICES, sink=self.resources, type=ResourceInventory)
        follow(owner="devices", stream=messages.ALLOCATIONS, sink=self.allocations, type=PodAllocation)
        await self.up()

    async def up(self) -> None:
        """Wait until every actor serves."""
        await until("devices streams", lambda: self.resources.synced and self.allocations.synced)
        await self.listening(self.layout.registration_socket)
        if "frontdoor" in self._actors:
            await self.listening(self.layout.pod_resources_socket)

    async def close(self) -> None:
        """End everything in good order and prove that nothing is left."""
        codes, left = await self.end()
        assert set(codes.values()) <= {0, -signal.SIGTERM, *self.expected_codes}, f"exit codes: {codes}"
        assert left == [], f"sockets left: {left}"

    async def end(self) -> tuple[dict[str, int], list[Path]]:
        """Exit codes, and sockets that are left."""
        for plugin in self._stubs:
            await plugin.stop()
        for process in reversed(self.processes.values()):
            process.terminate()
        codes = {name: await asyncio.to_thread(process.wait, 30) for name, process in self.processes.items()}
        await self.bus.close()
        left = [path for path in self.root.rglob("*") if stat.S_ISSOCK(path.lstat().st_mode)]
        shutil.rmtree(self.root)
        return codes, left

    def change(self, **settings: Any) -> None:
        """Settings for the next life of an actor."""
        save_settings(self.layout.settings, plane_settings(self.root, **settings))

    def start(self, actor: str) -> None:
        self.processes[actor] = start_actor(actor, self.layout.settings, self.root / f"{actor}.log")

    def plugin(self, *flags: str) -> Process:
        """The product's own plugin, as a process."""
        words = ["--root", str(self.root), "plugin", *flags]
        process = start_command(words, os.environ, self.root / "plugin.log")
        self.processes[f"plugin-{process.pid}"] = process
        return process

    def stub(self, resource: str = RESOURCE, endpoint: str = "stub.sock") -> StubPlugin:
        """A plugin in this process; stopped with the node."""
        plugin = StubPlugin(self.layout.device_plugins, resource, endpoint)
        self._stubs.append(plugin)
        return plugin

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    async def restart(self, name: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """kill -9, and what the supervisor does then; returns when the next life is seen."""
        epoch = self._resources.epoch
        self.kill(name)
        meanwhile()
        self.start(name)
        if name == "devices":
            await until("a new life", lambda: self._resources.epoch != epoch and self._resources.synced)
            await self.listening(self.layout.registration_socket)

    def log(self, name: str) -> str:
        path = self.root / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def show_logs(self) -> None:
        for path in sorted(self.root.glob("*.log")):
            print(f"--- {path.name}\n{path.read_text()[-4000:]}")

    async def listening(self, socket: Path) -> None:
        async def answers() -> bool:
            try:
                _, writer = await asyncio.open_unix_connection(str(socket))
            except OSError:
                return False
            writer.close()
            return True

        await until(f"{socket} listening", answers)

    def channel(self) -> grpc.aio.Channel:
        return unix_channel(self.layout.pod_resources_socket)

    # what podworker does

    async def admit(self, uid: str, timeout: float = 40.0, **containers: dict[str, int]) -> AdmittedPod:
        asked = tuple(ContainerRequest(name=name, resources=wanted) for name, wanted in containers.items())
        return await self.admit_pod(AdmitPod(uid=uid, namespace="default", name=uid, containers=asked), timeout)

    async def admit_pod(self, pod: AdmitPod, timeout: float = 40.0) -> AdmittedPod:
        return await self.bus.call("devices", messages.ADMIT, pod, AdmittedPod, timeout=timeout, idempotent=True)

    async def release(self, uid: str) -> None:
        await self._order(messages.RELEASE, ReleasePod(uid=uid))

    async def reconcile(self, *active: str) -> None:
        await self._order(messages.RECONCILE, ReconcilePods(active=active))

    async def chaos(self, id: str, health: str, resource: str = RESOURCE) -> None:
        await self._order(messages.CHAOS_DEVICE, ChaosDevice(resource=resource, id=id, health=health))

    async def pre_start(self, uid: str, container: str, *resources: str) -> None:
        await self._order(messages.PRE_START, PreStart(uid, container, resources))

    async def _order(self, method: str, request: Any) -> None:
        await self.bus.call("devices", method, request, Empty, timeout=30, idempotent=True)

    # what the streams say

    def _on_resource(self, op: Op, name: str, new: ResourceInventory | None, old: ResourceInventory | None) -> None:
        if new is not None:
            self.seen.setdefault(name, []).append(figures(new))

    def figures(self, resource: str = RESOURCE) -> tuple[int, int] | None:
        """(allocatable, capacity), None when the resource was never registered."""
        view = self.resources.items.get(resource)
        return None if view is None else figures(view)

    async def settled(self, allocatable: int, capacity: int, resource: str = RESOURCE) -> None:
        await until(f"{allocatable}/{capacity}", lambda: self.figures(resource) == (allocatable, capacity))

    async def holds(self, held: dict[str, list[str]]) -> None:
        """Wait for the stream to show it; answers of calls travel apart from it."""
        await until(f"held: {held}", lambda: self.held() == held)

    def held(self) -> dict[str, list[str]]:
        """Device ids by pod."""
        return {
            uid: sorted({device.id for container in pod.containers for device in container.devices})
            for uid, pod in self.allocations.items.items()
        }
