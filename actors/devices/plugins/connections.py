"""All connections to device plugins: registration, their device lists, and the plugin that serves a resource."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from actors.devices.calls.lists import list_report
from actors.devices.calls.log import CallLog, StreamMessage
from actors.devices.model.errors import PluginFailed, RegistrationRejected
from actors.devices.model.metrics import DeviceMetrics
from actors.devices.model.types import CallDeadlines
from actors.devices.plugins.plugin import Plugin, PluginEndpoint
from protocols.bus import Op
from protocols.lifecycle.devices.inventory import Inventory
from protocols.lifecycle.devices.types import PluginDevice
from protocols.messages.devices import PLUGIN_GONE, PLUGIN_REPLACED, PLUGIN_SERVES, PLUGIN_SILENT, PluginView
from protocols.process.tasks import Tasks, failed, wait_set
from protocols.trace import span
from protocols.wire.plugin_names import endpoint_fault, resource_fault, version_fault
from protocols.wire.plugins import LIST_AND_WATCH

Publish = Callable[[Op, str, PluginView], None]


MAX_RESOURCES = 1000
OLD_CONNECTIONS = 4
"""Per resource, so that a plugin that registers again and again does not pile up streams."""


class PluginStatusTable(msgspec.Struct):
    """Views by resource and generation. Of gone connections only the newest of each resource is retained."""

    publish: Publish = lambda op, key, view: None
    views: dict[str, PluginView] = msgspec.field(default_factory=dict)

    def registered(self, generation: int, view: PluginView) -> None:
        for key, old in [*self.views.items()]:
            if old.resource == view.resource and old.state == PLUGIN_GONE:
                self._delete(key)
        self._set(generation, view, PLUGIN_SILENT)

    def reported(self, resource: str, generation: int) -> None:
        """Record a list: the connection serves now, and an older one waits for its end."""
        view = self.views.get(_key(resource, generation))
        if view is None or view.state == PLUGIN_SERVES:
            return
        for other, old in [*self.views.items()]:
            if old.resource == resource and old.state == PLUGIN_SERVES:
                self._set(int(other.rpartition(" ")[2]), old, PLUGIN_REPLACED)
        self._set(generation, view, PLUGIN_SERVES)

    def ended(self, resource: str, generation: int, why: str) -> None:
        view = self.views.get(_key(resource, generation))
        if view is None:
            return
        if any(
            old.resource == resource and old.state != PLUGIN_GONE and old is not view for old in self.views.values()
        ):
            self._delete(_key(resource, generation))
        else:
            self._set(generation, msgspec.structs.replace(view, why=why), PLUGIN_GONE)

    def _set(self, generation: int, view: PluginView, state: str) -> None:
        key = _key(view.resource, generation)
        self.views[key] = msgspec.structs.replace(view, state=state, since_ns=time.time_ns())
        self.publish(Op.UPSERT, key, self.views[key])

    def _delete(self, key: str) -> None:
        self.publish(Op.DELETE, key, self.views.pop(key))


def _key(resource: str, generation: int) -> str:
    return f"{resource} {generation}"


async def _nothing_to_write() -> None:
    """Do nothing: the default for tests without a checkpoint."""


@dataclass(frozen=True)
class PluginConnectionsOptions:
    """Parts of the device manager that connections use."""

    directory: Path
    inventory: Inventory
    limits: CallDeadlines
    metrics: DeviceMetrics
    changed: Callable[[str], None]
    """Called after devices or health of a resource changed."""
    registered: Callable[[str], None]
    """Called for a resource that may be new to this node."""
    log: logging.Logger
    wait_written: Callable[[], Awaitable[None]] = _nothing_to_write
    """Returns once what `registered` announced is on disk; raises CheckpointNotWritten."""
    status_table: PluginStatusTable = field(default_factory=PluginStatusTable)
    calls: CallLog = field(default_factory=CallLog)


@dataclass(eq=False)
class PluginConnection:
    """One connection; of several for a resource the greatest generation serves."""

    plugin: Plugin
    generation: int
    devices: list[PluginDevice] | None = None
    """Newest list; None before the first."""
    task: "asyncio.Task[None]" = field(init=False)

    @property
    def resource(self) -> str:
        return self.plugin.endpoint.resource

    @property
    def socket(self) -> Path:
        return self.plugin.endpoint.socket

    def end(self) -> None:
        """End the connection soon: a task that is cancelled before its first step would not clean up."""
        asyncio.get_running_loop().call_soon(self.task.cancel)


class PluginConnections:
    """Connections by resource, the oldest first; each has a task that follows its device list."""

    def __init__(self, options: PluginConnectionsOptions) -> None:
        self._options = options
        self._unwritten: set[str] = set()
        """New resources that are not known to be on disk."""
        self._connections: dict[str, list[PluginConnection]] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        self._tasks = Tasks()
        self._wait_until = time.monotonic() + options.limits.reconnect_wait
        self._reported = asyncio.Event()

    def start(self) -> None:
        """Start the grace period of plugins from before a restart."""
        self._call_later(self._options.limits.stop_grace, self._expire)

    def expect(self, resources: Iterable[str]) -> None:
        """Expect plugins of these resources, since running pods hold their devices."""
        self._options.inventory.expect(resources, time.monotonic())
        self._call_later(self._options.limits.stop_grace, self._expire)

    async def register(self, version: str, resource: str, file_name: str) -> None:
        """Handle a Register call: check, dial and get options. Raises the error that the plugin is sent."""
        check_registration(version, resource, file_name)
        await self.connect(resource, self._options.directory / file_name)

    async def connect(self, resource: str, socket: Path) -> None:
        """Dial a plugin, get its options and follow its lists.

        Raises:
            PluginUnreachable: The socket does not answer.
            RegistrationRejected: The node has had too many resources.
            CheckpointNotWritten: A new resource cannot be made durable.
        """
        if resource not in self._options.inventory.resources:
            self._check_room(resource)
        plugin = Plugin(PluginEndpoint(resource, socket, self._options.limits, self._options.calls))
        try:
            await plugin.connect()
            generation = await self._add_generation(resource)
        except BaseException:
            await plugin.close()
            raise
        self._options.metrics.registered(resource)
        self._replace(PluginConnection(plugin, generation))

    def _check_room(self, resource: str) -> None:
        if len(self._options.inventory.resources) >= MAX_RESOURCES:
            raise RegistrationRejected(f"no room for {resource}: this node has had {MAX_RESOURCES} resources")

    async def disconnect(self, resource: str, socket: Path) -> None:
        """End every connection to this socket, as if the plugin had closed its stream."""
        mine = [item for item in self._connections.get(resource, []) if item.socket == socket]
        for connection in mine:
            connection.end()
        await asyncio.gather(*(connection.task for connection in mine), return_exceptions=True)

    async def wait_registered(self, resource: str) -> None:
        """Wait, until a deadline after the manager's start, for a plugin from before the restart.

        No pod is rejected because the manager restarted.
        """
        if not self._awaited(resource):
            return
        with span("", "wait for plugin", resource=resource):
            while left := self._awaited(resource):
                self._reported.clear()
                await wait_set(self._reported, left)

    def _awaited(self, resource: str) -> float:
        """Return the seconds left to wait for a resource's plugin; 0 if nobody needs to."""
        return max(0.0, self._wait_until - time.monotonic()) if self._options.inventory.awaited(resource) else 0.0

    async def _add_generation(self, resource: str) -> int:
        """Return the generation of a new connection.

        A new resource is on disk before it is published: a restart that forgot it would ignore pods' requests for it.
        """
        known = resource in self._options.inventory.resources
        if not known:
            self._check_room(resource)
        generation = self._options.inventory.register(resource)
        if not known:
            self._unwritten.add(resource)
        self._options.registered(resource)
        if resource in self._unwritten:  # also of a plugin that registers again meanwhile
            await self._options.wait_written()
            self._unwritten.discard(resource)
        return generation

    def _replace(self, connection: PluginConnection) -> None:
        resource = connection.resource
        connection.task = self._tasks.start(self._follow(connection), "plugin stream", resource)
        mine = self._connections.setdefault(resource, [])
        for old in mine[:-OLD_CONNECTIONS]:
            old.end()
        mine.append(connection)
        self._options.status_table.registered(connection.generation, self._view(connection.plugin))
        self._options.changed(resource)
        self._options.log.info("device plugin registered resource=%s socket=%s", resource, connection.socket.name)

    def _view(self, plugin: Plugin) -> PluginView:
        socket = plugin.endpoint.socket
        shown = socket.name if socket.parent == self._options.directory else str(socket)
        return PluginView(
            plugin.endpoint.resource, shown, pre_start=plugin.options.pre_start, preferred=plugin.options.preferred
        )

    async def _follow(self, connection: PluginConnection) -> None:
        """Follow one plugin's stream from its first list to its end."""
        resource, why, status = connection.resource, "replaced or deregistered", "CANCELLED"
        try:
            async for devices in connection.plugin.lists():
                self._retire(connection)
                self._record_list(connection, devices)
                if self._report(connection, devices):
                    self._options.changed(resource)
                self._reported.set()
        except PluginFailed as error:
            why, status = str(error), error.status
            self._options.log.warning(
                "device plugin disconnected resource=%s socket=%s reason=%s",
                resource,
                connection.socket.name,
                error,
            )
        except Exception as error:
            # The wire library may raise anything on malformed messages; only this plugin ends.
            why, status = repr(error), "INTERNAL"
            failed("plugin stream", resource, error)
        finally:
            self._record_end(connection, status, why)
            self._on_stream_end(connection)
            self._options.status_table.ended(resource, connection.generation, why)
            await connection.plugin.close()

    def _report(self, connection: PluginConnection, devices: list[PluginDevice]) -> bool:
        """Apply a connection's list. Return True if the resource changed."""
        resource, generation, inventory = connection.resource, connection.generation, self._options.inventory
        connection.devices = devices
        changed = inventory.report(resource, generation, connection.plugin.options, devices)
        if inventory.resources[resource].serving == generation:
            self._options.status_table.reported(resource, generation)
        return changed

    def _record_list(self, connection: PluginConnection, devices: list[PluginDevice]) -> None:
        entry = self._options.inventory.resources[connection.resource]
        superseded = connection.generation < entry.serving and entry.connected
        outcome = "not used: a newer connection of this resource serves" if superseded else ""
        report = list_report(connection.devices, devices, outcome)
        self._options.calls.report(connection.plugin.endpoint.peer, LIST_AND_WATCH, report)

    def _record_end(self, connection: PluginConnection, status: str, why: str) -> None:
        grace, entry = self._options.limits.stop_grace, self._options.inventory.resources[connection.resource]
        outcome = f"{'another' if entry.connected else 'no'} connection of this resource serves"
        if entry.serving == connection.generation:
            outcome = f"devices are Unknown and not allocatable; after {grace:g} s without a plugin they are dropped"
        self._options.calls.report(connection.plugin.endpoint.peer, LIST_AND_WATCH, StreamMessage(outcome, status, why))

    def _retire(self, connection: PluginConnection) -> None:
        """Cancel older connections to the same socket: nobody is at their other end."""
        for old in self._connections[connection.resource]:
            if old.generation < connection.generation and old.socket == connection.socket:
                old.task.cancel()

    def _on_stream_end(self, connection: PluginConnection) -> None:
        resource = connection.resource
        self._connections[resource].remove(connection)
        if self._options.inventory.disconnect(resource, connection.generation, time.monotonic()):
            self._fall_back(resource)
            self._options.changed(resource)

    def _fall_back(self, resource: str) -> None:
        """Let the newest of the other live instances serve; without one, the grace period starts."""
        live = [item for item in self._connections[resource] if item.devices is not None and not item.task.cancelling()]
        if not live:
            self._call_later(self._options.limits.stop_grace, self._expire)
            return
        newest = max(live, key=lambda item: item.generation)
        self._report(newest, newest.devices or [])
        self._options.log.info("device plugin serves again resource=%s socket=%s", resource, newest.socket.name)

    def _expire(self) -> None:
        for resource in self._options.inventory.expire(time.monotonic() + 0.01, self._options.limits.stop_grace):
            self._options.log.info("device plugin did not come back, its devices are dropped resource=%s", resource)
            self._options.changed(resource)

    def _call_later(self, delay: float, call: Callable[[], None]) -> None:
        self._timers = {timer for timer in self._timers if timer.when() > time.monotonic() and not timer.cancelled()}
        self._timers.add(asyncio.get_running_loop().call_later(delay, call))

    def serving(self, resource: str) -> Plugin:
        """Return the plugin that serves the resource. Raises PluginFailed if it is gone."""
        entry = self._options.inventory.resources.get(resource)
        if entry is None:
            raise PluginFailed(f"unknown Device Plugin {resource}")
        for connection in self._connections.get(resource, []):
            if connection.generation == entry.serving:
                return connection.plugin
        raise PluginFailed(f"endpoint of {resource} has been stopped")

    async def close(self) -> None:
        for timer in self._timers:
            timer.cancel()
        await self._tasks.close()


def check_registration(version: str, resource: str, endpoint: str) -> None:
    """Raise RegistrationRejected, with kubelet's message where it has one."""
    if fault := version_fault(version) or resource_fault(resource) or endpoint_fault(endpoint):
        raise RegistrationRejected(fault)
