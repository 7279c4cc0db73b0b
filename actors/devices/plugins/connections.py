"""All connected plugins: takes registrations, feeds the inventory, finds the plugin that serves a resource."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from actors.devices.model.errors import PluginFailed, RegistrationRefused
from actors.devices.model.metrics import DeviceMetrics
from actors.devices.model.types import Limits
from actors.devices.plugins.inventory import Inventory
from actors.devices.plugins.plugin import Peer, Plugin
from actors.devices.plugins.resource_names import check_registration
from actors.devices.plugins.status_table import Board
from protocols.messages.devices import PluginView

MOST_RESOURCES = 1000
OLD_CONNECTIONS = 4
"""Per resource; a plugin that registers again and again does not pile up streams."""


async def _at_once() -> None:
    """Nothing has to be written."""


@dataclass(frozen=True)
class PluginsOptions:
    directory: Path
    inventory: Inventory
    limits: Limits
    metrics: DeviceMetrics
    changed: Callable[[str], None]
    """A resource's devices or health changed."""
    registered: Callable[[str], None]
    """A resource may be new to this node."""
    log: logging.Logger
    remembered: Callable[[], Awaitable[None]] = _at_once
    """Returns when what `registered` told is on disk; raises CheckpointNotWritten."""
    board: Board = field(default_factory=Board)


@dataclass(frozen=True)
class Connection:
    plugin: Plugin
    generation: int
    task: "asyncio.Task[None]"


class Plugins:
    def __init__(self, options: PluginsOptions) -> None:
        self._options = options
        self._connections: dict[str, list[Connection]] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        self._patient_until = time.monotonic() + options.limits.come_back
        self._reported = asyncio.Event()

    def start(self) -> None:
        """Plugins of an earlier life are expected from now on."""
        self._later(self._options.limits.stop_grace, self._expire)

    def expect(self, resources: Iterable[str]) -> None:
        """Plugins of these were here, as pods that hold their devices tell."""
        self._options.inventory.expect(resources, time.monotonic())
        self._later(self._options.limits.stop_grace, self._expire)

    async def register(self, version: str, resource: str, endpoint: str) -> None:
        """Check, dial and ask for options, all inside the plugin's Register call; raises what it is to be told."""
        check_registration(version, resource, endpoint)
        await self.connect(resource, self._options.directory / endpoint)

    async def connect(self, resource: str, socket: Path) -> None:
        """Dial, ask for options, and follow its lists.

        Raises PluginUnreachable, RegistrationRefused, or CheckpointNotWritten when the disk is full.
        """
        if resource not in self._options.inventory.resources:
            self._check_room(resource)
        plugin = Plugin(Peer(resource, socket, self._options.limits))
        try:
            await plugin.connect()
            generation = await self._remember(resource)
        except BaseException:
            await plugin.close()
            raise
        self._options.metrics.registered(resource)
        self._replace(resource, generation, plugin)

    def _check_room(self, resource: str) -> None:
        """A node remembers every resource it ever had, so there is an end to them."""
        if len(self._options.inventory.resources) >= MOST_RESOURCES:
            raise RegistrationRefused(f"no room for {resource}: this node has had {MOST_RESOURCES} resources")

    async def disconnect(self, resource: str, socket: Path) -> None:
        """End every connection to this socket, as if the plugin had closed its stream."""
        mine = [item for item in self._connections.get(resource, []) if item.plugin.peer.socket == socket]
        for connection in mine:
            connection.task.cancel()
        await asyncio.gather(*(connection.task for connection in mine), return_exceptions=True)

    async def returned(self, resource: str) -> None:
        """Wait for a plugin that was here before the manager started anew, but not for long: no pod is to be refused
        because the manager died."""
        while self._options.inventory.awaited(resource) and (left := self._patient_until - time.monotonic()) > 0:
            self._reported.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._reported.wait()

    async def _remember(self, resource: str) -> int:
        """The generation of a new connection. A resource that is new is on disk before anything is told of it: a
        manager that forgot it would take a pod's request for it for none of its business."""
        known = resource in self._options.inventory.resources
        generation = self._options.inventory.register(resource)
        self._options.registered(resource)
        if not known:
            await self._options.remembered()
        return generation

    def _replace(self, resource: str, generation: int, plugin: Plugin) -> None:
        task = asyncio.create_task(self._follow(resource, generation, plugin), name=f"plugin {resource}")
        mine = self._connections.setdefault(resource, [])
        for connection in mine[:-OLD_CONNECTIONS]:
            connection.task.cancel()
        mine.append(Connection(plugin, generation, task))
        self._options.board.registered(generation, self._view(plugin))
        self._options.changed(resource)
        self._options.log.info("device plugin registered: %s at %s", resource, plugin.peer.socket.name)

    def _view(self, plugin: Plugin) -> PluginView:
        socket = plugin.peer.socket
        shown = socket.name if socket.parent == self._options.directory else str(socket)
        return PluginView(
            plugin.peer.resource, shown, pre_start=plugin.options.pre_start, preferred=plugin.options.preferred
        )

    async def _follow(self, resource: str, generation: int, plugin: Plugin) -> None:
        """One plugin's stream from its first list to its end, which concerns this connection alone."""
        why = "replaced or deregistered"
        try:
            async for devices in plugin.lists():
                self._options.board.reported(resource, generation)
                self._retire(resource, generation, plugin.peer.socket)
                if self._options.inventory.report(resource, generation, plugin.options, devices):
                    self._options.changed(resource)
                self._reported.set()
        except PluginFailed as error:
            why = str(error)
            self._options.log.warning("device plugin %s at %s: %s", resource, plugin.peer.socket.name, error)
        except Exception as error:
            # what the wire library makes of bytes that are no message, or what nobody thought of: its plugin ends
            why = repr(error)
            self._options.log.error("device plugin %s at %s: %r", resource, plugin.peer.socket.name, error)
        finally:
            self._ended(resource, generation)
            self._options.board.ended(resource, generation, why)
            await plugin.close()

    def _retire(self, resource: str, generation: int, socket: Path) -> None:
        """A newer connection to the same socket speaks: the older ones have nobody at their other end."""
        for connection in self._connections.get(resource, []):
            if connection.generation < generation and connection.plugin.peer.socket == socket:
                connection.task.cancel()

    def _ended(self, resource: str, generation: int) -> None:
        mine = self._connections.get(resource, [])
        self._connections[resource] = [item for item in mine if item.generation != generation]
        if self._options.inventory.disconnect(resource, generation, time.monotonic()):
            self._options.changed(resource)
            self._later(self._options.limits.stop_grace, self._expire)

    def _expire(self) -> None:
        for resource in self._options.inventory.expire(time.monotonic() + 0.01, self._options.limits.stop_grace):
            self._options.log.info("device plugin of %s has been gone too long: its devices are forgotten", resource)
            self._options.changed(resource)

    def _later(self, delay: float, call: Callable[[], None]) -> None:
        self._timers = {timer for timer in self._timers if timer.when() > time.monotonic() and not timer.cancelled()}
        self._timers.add(asyncio.get_running_loop().call_later(delay, call))

    def serving(self, resource: str) -> Plugin:
        """The plugin whose devices these are; raises PluginFailed when it is gone."""
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
        tasks = [item.task for items in self._connections.values() for item in items]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
