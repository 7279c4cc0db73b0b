"""Evidence of a running plane: its API as administrator, and the bus of a node."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from protocols.bus import Bus, BusOptions, Following, Replica
from protocols.dra.gates import Gates, gates_of
from protocols.kube.meta import Object, name_of, namespace_of
from protocols.kube.resources import PODS
from protocols.kubeclient.client import ApiClient, ClientOptions
from protocols.messages import devices as messages
from protocols.messages.devices import DeviceHealth, DraDriver, PluginView, PodAllocation, ResourceInventory
from protocols.messages.supervisor import PlaneStatus
from protocols.process.layout import Layout, layout
from protocols.process.settings import load_settings
from supervisor.calls.client import read_calls
from supervisor.client.connection import Asking, devices_known, running
from supervisor.client.devices import rows_of
from supervisor.client.drivers import drivers_view_of
from supervisor.trace.collect import PodTrace, pod_trace
from supervisor.why.gather.sources import LOG_BYTES, LOG_LINES, DeviceManager, Sources

READ_S = 10.0


class LiveSources(NamedTuple):
    client: ApiClient
    bus: Bus
    """Bus of the first node, or of the root itself."""
    layout: Layout
    """Layout of the plane."""

    @property
    def gates(self) -> Gates:
        return gates_of(load_settings(self.layout.settings).gate)

    @property
    def node_name(self) -> str:
        return load_settings(self.layout.settings).node_name

    @property
    def node_layout(self) -> Layout:
        """Layout of the node whose bus this is."""
        run = self.bus.options.run_dir
        return self.layout if run == self.layout.run else self.layout.node(run.parent.name)

    def now(self) -> float:
        return time.time()

    def further_nodes(self) -> list[str]:
        return sorted(path.name for path in (self.layout.root / "nodes").glob("*") if (path / "run").is_dir())

    @asynccontextmanager
    async def node(self, name: str) -> AsyncIterator[Sources]:
        if name not in self.further_nodes():
            yield self
            return
        bus = Bus(BusOptions(name="", run_dir=self.layout.node(name).run))
        await bus.start()
        try:
            yield self._replace(bus=bus)
        finally:
            await bus.close()

    async def device_manager(self) -> DeviceManager:
        return await device_manager(self.bus, self.node_layout)

    async def status(self) -> PlaneStatus:
        return await Asking(self.bus, self.node_layout).status()

    async def trace(self, namespace: str, name: str) -> PodTrace:
        return await pod_trace(self.layout, namespace, name)

    async def log(self, pod: Object, container: str, previous: bool) -> str:
        query = {"container": container, "tailLines": str(LOG_LINES), "limitBytes": str(LOG_BYTES)}
        path = PODS.path(name_of(pod), namespace_of(pod), "log")
        return await self.client.text(path, query | ({"previous": "true"} if previous else {}), LOG_BYTES)


@asynccontextmanager
async def connected(where: Layout) -> AsyncIterator[LiveSources]:
    """Connect to the plane below a root. Raises NotRunning, NodeplaneError."""
    running(where)  # or raises NotRunning
    plane = layout(str(where.plane), str(where.kubelet) if where.plane == where.root else "")
    client, bus = ApiClient(_options(plane)), Bus(BusOptions(name="", run_dir=where.run))
    try:
        await client.start()
        await bus.start()
        yield LiveSources(client, bus, plane)
    finally:
        try:
            await bus.close()
        finally:
            await client.close()


def _options(plane: Layout) -> ClientOptions:
    cert, key = plane.client_cert("admin")
    return ClientOptions(
        server=load_settings(plane.settings).api_url, ca=plane.ca_cert, cert=cert, key=key, timeout=READ_S
    )


async def device_manager(bus: Bus, where: Layout) -> DeviceManager:
    """Raises NotRunning, SupervisorError."""
    inventory, views = Replica[ResourceInventory](), Replica[PluginView]()
    health, dra_health, pods = Replica[DeviceHealth](), Replica[DeviceHealth](), Replica[PodAllocation]()
    drivers = Replica[DraDriver]()
    follow, owner = bus.follow, messages.OWNER
    following: tuple[Following[Any], ...] = (
        follow(owner=owner, stream=messages.DEVICES, sink=inventory, type=ResourceInventory),
        follow(owner=owner, stream=messages.PLUGINS, sink=views, type=PluginView),
        follow(owner=owner, stream=messages.HEALTH, sink=health, type=DeviceHealth),
        follow(owner=owner, stream=messages.DRA_HEALTH, sink=dra_health, type=DeviceHealth),
        follow(owner=owner, stream=messages.ALLOCATIONS, sink=pods, type=PodAllocation),
        follow(owner=owner, stream=messages.DRA_DRIVERS, sink=drivers, type=DraDriver),
    )
    try:
        await devices_known(following)
    finally:
        for each in following:
            bus.unfollow(each)
    return DeviceManager(
        calls=tuple(await read_calls(bus)),
        inventory=inventory.items,
        plugins=tuple(views.items.values()),
        health={**health.items, **dra_health.items},
        rows=tuple(rows_of(inventory.items, health.items, pods.items)),
        drivers=drivers_view_of(drivers.items, dra_health.items, pods.items),
        socket_since=_socket_since(where),
    )


def _socket_since(where: Layout) -> float:
    try:
        return where.registration_socket.stat().st_mtime
    except OSError:
        return 0.0
