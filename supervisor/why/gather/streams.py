"""Streams of a node's device manager, followed once for all evidence: resources, plugins, health, holders."""

import time
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any

import msgspec

from protocols.bus import Following, Replica
from protocols.errors import NodeplaneError
from protocols.messages import devices as messages
from protocols.messages.calls import CallRecord
from protocols.messages.devices import DeviceHealth, DraDriver, PluginView, PodAllocation, ResourceInventory
from supervisor.calls.client import read_calls
from supervisor.client.connection import devices_known
from supervisor.client.devices import DeviceRow, rows_of
from supervisor.client.drivers import DriversView, drivers_view_of
from supervisor.why.gather.sources import Sources, node_bus
from supervisor.why.model.types import DriverEvidence, PluginEvidence

MOST_NODES = 32
"""Nodes of a plane whose device managers are asked."""


class DeviceManager(msgspec.Struct, frozen=True):
    """State of one device manager."""

    calls: tuple[CallRecord, ...] = ()
    inventory: dict[str, ResourceInventory] = {}
    plugins: tuple[PluginView, ...] = ()
    health: dict[str, DeviceHealth] = {}
    """By `RESOURCE ID`, and `DRIVER/POOL/DEVICE`."""
    rows: tuple[DeviceRow, ...] = ()
    drivers: DriversView = DriversView((), ())
    socket_since: float = 0.0
    """When kubelet.sock was created; 0 = it is not there."""

    def resources(self) -> list[str]:
        """Return the resources that plugins have, had, or tried to register."""
        drivers = {row.driver.name for row in self.drivers.drivers}
        peers = {call.peer for call in self.calls if call.peer not in drivers}
        return sorted({*self.inventory, *(view.resource for view in self.plugins), *peers} - {""})


async def device_manager(sources: Sources) -> DeviceManager:
    """Raises NotRunning, SupervisorError."""
    inventory, views = Replica[ResourceInventory](), Replica[PluginView]()
    health, dra_health, pods = Replica[DeviceHealth](), Replica[DeviceHealth](), Replica[PodAllocation]()
    drivers = Replica[DraDriver]()
    follow, owner = sources.bus.follow, messages.OWNER
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
            sources.bus.unfollow(each)
    return DeviceManager(
        calls=tuple(await read_calls(sources.bus)),
        inventory=inventory.items,
        plugins=tuple(views.items.values()),
        health={**health.items, **dra_health.items},
        rows=tuple(rows_of(inventory.items, health.items, pods.items)),
        drivers=drivers_view_of(drivers.items, dra_health.items, pods.items),
        socket_since=_socket_since(sources),
    )


async def managers(sources: Sources) -> AsyncIterator[tuple[Sources, DeviceManager]]:
    """Yield the device managers of the plane's nodes on this machine, the first node's first."""
    yield sources, await device_manager(sources)
    further = sorted(path.name for path in (sources.layout.root / "nodes").glob("*") if path.is_dir())
    for node in further[:MOST_NODES]:
        async with node_bus(sources, node) as near:
            with suppress(NodeplaneError):
                yield near, await device_manager(near)


def plugin_evidence(manager: DeviceManager, resources: Iterable[str]) -> tuple[PluginEvidence, ...]:
    return tuple(_plugin(manager, name) for name in sorted(resources))


async def best_plugins(sources: Sources, resources: set[str]) -> tuple[PluginEvidence, ...]:
    """Return for each resource the evidence of the node whose plugin serves it, else of one that knows it.

    Raises NotRunning, SupervisorError.
    """
    best: dict[str, PluginEvidence] = {}
    if not resources:
        return ()
    async for _, manager in managers(sources):
        for each in plugin_evidence(manager, resources):
            before = best.setdefault(each.resource, each)
            if (each.connected, each.known) > (before.connected, before.known):
                best[each.resource] = each
    return tuple(best.values())


def _plugin(manager: DeviceManager, name: str) -> PluginEvidence:
    entry = manager.inventory.get(name)
    devices = entry.devices if entry else ()
    mine = [view for view in manager.plugins if view.resource == name]
    return PluginEvidence(
        resource=name,
        now=time.time(),
        known=entry is not None,
        connected=bool(entry and entry.connected),
        capacity=len(devices),
        healthy=sum(device.health == messages.HEALTHY for device in devices),
        plugins=tuple(sorted(mine, key=lambda view: (view.state != messages.PLUGIN_SERVES, -view.since_ns))),
        calls=tuple(call for call in manager.calls if call.peer == name),
        socket_since=manager.socket_since,
        unhealthy=tuple(row for row in manager.rows if row.resource == name and row.health != messages.HEALTHY),
    )


def driver_evidence(manager: DeviceManager, name: str, slices: int) -> DriverEvidence:
    return DriverEvidence(
        name=name,
        now=time.time(),
        row=next((row for row in manager.drivers.drivers if row.driver.name == name), None),
        calls=tuple(call for call in manager.calls if call.peer == name),
        socket_since=manager.socket_since,
        slices=slices,
    )


def _socket_since(sources: Sources) -> float:
    try:
        return sources.node_layout.registration_socket.stat().st_mtime
    except OSError:
        return 0.0
