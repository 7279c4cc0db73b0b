"""Device managers of a plane, and the evidence about plugins and drivers that one has."""

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress

from protocols.errors import NodeplaneError
from protocols.kinds.table import NODES
from protocols.kube.meta import name_of
from protocols.kube.objects import mapping
from protocols.messages import devices as messages
from protocols.messages.devices import DeviceHealth
from supervisor.why.gather.sources import MOST, DeviceManager, Sources, here
from supervisor.why.model.types import DriverEvidence, PluginEvidence

MOST_NODES = 32
"""Nodes of a plane whose device managers are asked."""


async def managers(sources: Sources) -> AsyncIterator[tuple[Sources, DeviceManager]]:
    """Yield the device managers of the plane's nodes on this machine, that of the sources' own node first."""
    yield sources, await sources.device_manager()
    for node in sources.other_nodes()[:MOST_NODES]:
        async with sources.node(node) as near:
            with suppress(NodeplaneError):
                yield near, await near.device_manager()


def plugin_evidence(manager: DeviceManager, resources: Iterable[str], now: float) -> tuple[PluginEvidence, ...]:
    """Return evidence about the plugins of these resources; none of a manager that is kubelet's."""
    return () if manager.kubelet else tuple(_plugin(manager, name, now) for name in sorted(resources))


async def best_plugins(sources: Sources, resources: set[str]) -> tuple[PluginEvidence, ...]:
    """Return the evidence about each resource, from the node whose plugin serves it, else from any that knows it.

    Raises NotRunning, SupervisorError.
    """
    best: dict[str, PluginEvidence] = {}
    if not resources:
        return ()
    async for _, manager in managers(sources):
        for plugin in plugin_evidence(manager, resources, sources.now()):
            before = best.setdefault(plugin.resource, plugin)
            if (plugin.connected, plugin.known) > (before.connected, before.known):
                best[plugin.resource] = plugin
    return tuple(best.values())


def _plugin(manager: DeviceManager, name: str, now: float) -> PluginEvidence:
    entry = manager.inventory.get(name)
    devices = entry.devices if entry else ()
    mine = [view for view in manager.plugins if view.resource == name]
    return PluginEvidence(
        resource=name,
        now=now,
        known=entry is not None,
        connected=bool(entry and entry.connected),
        capacity=len(devices),
        healthy=sum(device.health == messages.HEALTHY for device in devices),
        plugins=tuple(sorted(mine, key=lambda view: (view.state != messages.PLUGIN_SERVES, -view.since_ns))),
        calls=tuple(call for call in manager.calls if call.peer == name),
        socket_since=manager.socket_since,
        unhealthy=tuple(row for row in manager.rows if row.resource == name and row.health != messages.HEALTHY),
    )


async def offered_elsewhere(sources: Sources) -> dict[str, list[str]]:
    """Return the nodes that run elsewhere, by the resources that they offer. Raises ApiError, ApiAway."""
    nodes_by_resource: dict[str, list[str]] = {}
    nodes = (await sources.client.list(NODES, query={"limit": str(MOST)})).get("items") or ()
    for node in nodes:
        if name_of(node) not in here(sources):
            for resource in mapping(mapping(node.get("status")).get("allocatable")):
                nodes_by_resource.setdefault(resource, []).append(name_of(node))
    return nodes_by_resource


async def all_health(sources: Sources) -> dict[str, DeviceHealth]:
    """Return the health of the devices of all nodes on this machine. Raises NotRunning, SupervisorError."""
    return {name: report async for _, manager in managers(sources) for name, report in manager.health.items()}


def driver_evidence(manager: DeviceManager, name: str, slices: int, now: float) -> DriverEvidence:
    """Return evidence about a driver, whether it is registered or not; `slices` is their number in the API."""
    return DriverEvidence(
        name=name,
        now=now,
        row=next((row for row in manager.drivers.drivers if row.driver.name == name), None),
        calls=tuple(call for call in manager.calls if call.peer == name),
        socket_since=manager.socket_since,
        slices=slices,
    )
