"""Evidence of a running plane: its API as administrator, and the bus of a node."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from protocols.bus import Bus, BusOptions
from protocols.dra.gates import Gates, gates_of
from protocols.kinds import views
from protocols.kinds.table import PODS
from protocols.kube.meta import name_of, namespace_of
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.kubeconfig import client_options
from protocols.messages import adopt
from protocols.messages import devices as messages
from protocols.messages.devices import Device, DeviceHealth, DraDriver, PluginView, PodAllocation, ResourceInventory
from protocols.messages.supervisor import PlaneStatus
from protocols.process.layout import Layout, layout
from protocols.process.settings import load_settings
from supervisor.base.errors import UsageError
from supervisor.calls.client import read_calls
from supervisor.client.connection import Asking, held, running
from supervisor.client.devices import rows_of
from supervisor.client.drivers import drivers_view_of
from supervisor.dra.sources import TIMEOUT_S
from supervisor.trace.collect import PodTrace, pod_trace
from supervisor.why.gather.sources import LOG_BYTES, LOG_LINES, DeviceManager, Sources

NOT_ALLOCATABLE = "kubelet does not list it as allocatable"


class LiveSources(NamedTuple):
    """API and bus of a running plane, from which evidence is gathered."""

    client: ApiClient
    bus: Bus
    """Bus of one of the plane's nodes."""
    layout: Layout
    """Layout of the plane."""

    @property
    def gates(self) -> Gates:
        return gates_of(load_settings(self.layout.settings).gate)

    @property
    def node_name(self) -> str:
        where = self.node_layout
        return self._first if where == self.layout else where.root.name

    @property
    def _first(self) -> str:
        return load_settings(self.layout.settings).node_name

    @property
    def node_layout(self) -> Layout:
        """Layout of the node whose bus this is."""
        run = self.bus.options.run_dir
        return self.layout if run == self.layout.run else self.layout.node(run.parent.name)

    def now(self) -> float:
        return time.time()

    def other_nodes(self) -> list[str]:
        further = sorted(path.name for path in (self.layout.root / "nodes").glob("*") if (path / "run").is_dir())
        return [name for name in (self._first, *further) if name != self.node_name]

    @asynccontextmanager
    async def node(self, name: str) -> AsyncIterator[Sources]:
        if name not in self.other_nodes():
            yield self
            return
        where = self.layout if name == self._first else self.layout.node(name)
        bus = Bus(BusOptions(name="", run_dir=where.run))
        await bus.start()
        try:
            yield self._replace(bus=bus)
        finally:
            await bus.close()

    async def device_manager(self) -> DeviceManager:
        running(self.node_layout)  # or raises NotRunning: nobody answers for a node that was stopped
        if load_settings(self.layout.settings).adopt is not None:
            return await adopted_devices(self.bus)
        return await device_manager(self.bus, self.node_layout)

    async def status(self) -> PlaneStatus:
        return await Asking(self.bus, self.node_layout).status()

    async def trace(self, namespace: str, name: str) -> PodTrace:
        return await pod_trace(self.layout, namespace, name)

    async def log(self, pod: views.Pod, container: str, previous: bool) -> str:
        query = {"container": container, "tailLines": str(LOG_LINES), "limitBytes": str(LOG_BYTES)}
        path = PODS.path(name_of(pod), namespace_of(pod), "log")
        return await self.client.text(path, query | ({"previous": "true"} if previous else {}), LOG_BYTES)


@asynccontextmanager
async def connected(where: Layout, kubeconfig: str = "") -> AsyncIterator[LiveSources]:
    """Connect to the plane below a root, and to its API unless a kubeconfig names another.

    Raises NotRunning, NodeplaneError.
    """
    running(where)  # or raises NotRunning
    plane = layout(str(where.plane), str(where.kubelet) if where.plane == where.root else "")
    with client_options(_access(plane, kubeconfig), timeout=TIMEOUT_S) as options:
        client, bus = ApiClient(options), Bus(BusOptions(name="", run_dir=where.run))
        try:
            await client.start()
            await bus.start()
            yield LiveSources(client, bus, plane)
        finally:
            try:
                await bus.close()
            finally:
                await client.close()


def _access(plane: Layout, kubeconfig: str) -> Path:
    """Return the kubeconfig to use; in the root of a joined node it is the node's. Raises UsageError."""
    if not kubeconfig and load_settings(plane.settings).adopt is not None:
        raise UsageError(
            f"{plane.root} adopts a kubelet and has no API; give --kubeconfig FILE, an access to its cluster's"
        )
    return Path(kubeconfig) if kubeconfig else plane.kubeconfig


async def adopted_devices(bus: Bus) -> DeviceManager:
    """Return the devices and pods that a kubelet lists. Raises NotRunning."""
    allocatable, pods = await asyncio.gather(
        held(bus, messages.ALLOCATABLE, Device, adopt.OWNER),
        held(bus, messages.ALLOCATIONS, PodAllocation, adopt.OWNER),
    )
    devices = allocatable.values()
    inventory = {name: ResourceInventory(name, True, tuple(device for device in devices if device.resource == name))
                 for name in {device.resource for device in devices}}  # fmt: skip
    rows = [
        msgspec.structs.replace(row, health=messages.HEALTHY)
        if f"{row.resource} {row.device}" in allocatable
        else msgspec.structs.replace(row, health=messages.UNHEALTHY, message=NOT_ALLOCATABLE)
        for row in rows_of(inventory, {}, pods)
    ]
    return DeviceManager(rows=tuple(rows), kubelet=True)


async def device_manager(bus: Bus, where: Layout) -> DeviceManager:
    """Raises NotRunning, SupervisorError."""
    inventory, plugins, health, dra_health, pods, drivers = await asyncio.gather(
        held(bus, messages.DEVICES, ResourceInventory),
        held(bus, messages.PLUGINS, PluginView),
        held(bus, messages.HEALTH, DeviceHealth),
        held(bus, messages.DRA_HEALTH, DeviceHealth),
        held(bus, messages.ALLOCATIONS, PodAllocation),
        held(bus, messages.DRA_DRIVERS, DraDriver),
    )
    return DeviceManager(
        calls=tuple(await read_calls(bus)),
        inventory=inventory,
        plugins=tuple(plugins.values()),
        health={**health, **dra_health},
        rows=tuple(rows_of(inventory, health, pods)),
        drivers=drivers_view_of(drivers, dra_health, pods),
        socket_since=_socket_since(where),
    )


def _socket_since(where: Layout) -> float:
    try:
        return where.registration_socket.stat().st_mtime
    except OSError:
        return 0.0
