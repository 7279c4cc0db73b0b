"""The choosing part of a device manager on a described machine, with a plugin that the test speaks for."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from prometheus_client import CollectorRegistry

from actors.devices.admission.chooser import Chooser, ChooserOptions
from actors.devices.admission.grants import PodPlan
from actors.devices.calls.log import Purpose
from actors.devices.cpu.pool import CpuPool
from actors.devices.machine.machine_manager import make_placer
from actors.devices.machine.metrics import MachineMetrics
from actors.devices.machine.sysfs import read_hardware
from actors.devices.plugins.connections import PluginConnections
from protocols.lifecycle.devices.inventory import Inventory
from protocols.lifecycle.devices.ledger import Ledger
from protocols.lifecycle.devices.types import PluginDevice, PluginOptions
from protocols.messages.devices import AdmitPod, ContainerRequest
from protocols.node.alignment import Alignment
from tests.support.machines import GIB, Described, write_machine

GPU = "example.com/gpu"
TWO = Described(sockets=2, cores_per_node=4, memory=8 * GIB)


class FakePlugins:
    """One plugin that prefers what the test says, and lets something happen while it thinks."""

    def __init__(self) -> None:
        self.options = PluginOptions(preferred=True)
        self.wish: list[str] = []
        self.asked: list[tuple[list[str], list[str], int]] = []
        self.meanwhile: Callable[[], None] = lambda: None

    async def wait_registered(self, resource: str) -> None: ...

    def serving(self, resource: str) -> "FakePlugins":
        return self

    async def preferred(self, available: list[str], included: list[str], size: int, purpose: Purpose) -> list[str]:
        self.asked.append((available, included, size))
        self.meanwhile()
        return self.wish


class Node:
    def __init__(
        self, path: Path, policy: str, *, scope: str = "container", machine: Described = TWO, **more: Any
    ) -> None:
        settings = Alignment(
            cpuManagerPolicy="static",
            reservedSystemCPUs="0",
            topologyManagerPolicy=policy,
            topologyManagerScope=scope,
            **more,
        )
        self.ledger, self.inventory, self.plugins = Ledger(), Inventory(), FakePlugins()
        self.placer = make_placer(
            settings, read_hardware(path if (path / "sys").exists() else write_machine(path, machine))
        )
        self.registry = CollectorRegistry()
        self.metrics = MachineMetrics(self.registry)
        self.chooser = Chooser(
            ChooserOptions(
                self.ledger,
                self.inventory,
                cast(PluginConnections, self.plugins),
                self.placer,
                self.metrics,
            )
        )

    def devices(self, **numa: tuple[int, ...]) -> "Node":
        listed = [PluginDevice(id, True, nodes) for id, nodes in numa.items()]
        self.inventory.report(GPU, self.inventory.register(GPU), self.plugins.options, listed)
        return self

    def choose(self, uid: str, *containers: ContainerRequest) -> PodPlan:
        return asyncio.run(self.chooser.choose(AdmitPod(uid, "ns", uid, containers, guaranteed=True)))

    @property
    def cpu_pool(self) -> CpuPool:
        assert self.placer.cpus is not None
        return self.placer.cpus

    def cpus(self, uid: str, container: str = "c") -> set[int]:
        return set(self.placer.placed(uid, container).cpus)


def container(name: str = "c", cpu: int = 0, gpu: int = 0, kind: str = "app", memory: int = 0) -> ContainerRequest:
    return ContainerRequest(name, kind, {GPU: gpu} if gpu else {}, cpu=cpu * 1000, memory={"memory": memory})
