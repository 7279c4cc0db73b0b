"""Follow plugins_registry/ and register or deregister plugins as their sockets appear and disappear."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from actors.devices.calls.log import CallLog
from actors.devices.model.errors import PluginSilent, RegistrationFailed
from actors.devices.watcher.registrar import PluginHandler, Registrar
from actors.devices.watcher.sockets import Operation, RegistryState, Scan, SocketStep, scan
from protocols.actor.metrics import labelled
from protocols.process.families import GaugeFamily
from protocols.process.inotify import DirectoryChanges
from protocols.process.sockets import prepare_directory
from protocols.process.tasks import Tasks

RESCAN_S = 60.0
"""Interval of full scans, in case an inotify event is lost."""
MAX_CONCURRENT, MAX_RETRIES = 32, 16
"""Concurrent registrations of new sockets, and of those that failed before; one takes seconds if its plugin hangs, a
retry up to half a minute. Those that hang again and again keep no new one out."""


class WatcherOptions(msgspec.Struct, frozen=True):
    """The directory to follow, and who handles its sockets."""

    directory: Path
    handlers: Mapping[str, PluginHandler]
    """By plugin type."""
    registry: CollectorRegistry
    log: logging.Logger
    calls: CallLog = msgspec.field(default_factory=CallLog)


class PluginWatcher:
    """Follows the directory by inotify, and by a scan from time to time."""

    def __init__(self, options: WatcherOptions) -> None:
        self._options = options
        self._state = RegistryState()
        self._registrar = Registrar(options.handlers, options.calls)
        self._slots = {False: asyncio.Semaphore(MAX_CONCURRENT), True: asyncio.Semaphore(MAX_RETRIES)}
        """By whether the registration is retried."""
        self._tasks = Tasks()
        self._logged: dict[Path, str] = {}
        self._full = False
        options.registry.register(Totals(self._state))

    async def run(self) -> None:
        """Runs forever. Registrations in state end with it."""
        changes = DirectoryChanges()
        try:
            while True:
                await self._scan_directory(changes)
                now = time.monotonic()
                for step in self._state.next_steps(now):
                    self._begin(step, changes)
                due = self._state.next_due()
                await changes.wait(RESCAN_S if due is None else max(0.0, min(due - now, RESCAN_S)))
        finally:
            changes.close()
            self._tasks.cancel()

    async def _scan_directory(self, changes: DirectoryChanges) -> None:
        """Scan the directory. It is watched before it is read, so that no change is missed."""
        scanned = await asyncio.to_thread(self._scan)
        while changes.watch(scanned.directories):
            scanned = await asyncio.to_thread(self._scan)
        if scanned.full and not self._full:
            self._options.log.warning(
                "plugin registry exceeds its limits, the rest is ignored directory=%s", self._options.directory
            )
        self._full = scanned.full
        self._state.set_desired(scanned.sockets, time.monotonic())
        self._logged = {path: text for path, text in self._logged.items() if path in scanned.sockets}

    def _scan(self) -> Scan:
        prepare_directory(self._options.directory)
        return scan(self._options.directory)

    def _begin(self, step: SocketStep, changes: DirectoryChanges) -> None:
        self._tasks.start(self._do(step, changes), "plugin registration", f"{step.operation.value} {step.path.name}")

    async def _do(self, step: SocketStep, changes: DirectoryChanges) -> None:
        ok = False
        try:
            if step.operation is Operation.DEREGISTER:
                ok = await self._deregister(step.path)
            else:
                async with self._slots[step.retried]:
                    ok = await self._register(step.path, step.retried)
        finally:  # whatever ended it: a step without a result would block its path for good
            self._state.finished(step, ok, time.monotonic())
            changes.wake()

    async def _register(self, path: Path, retried: bool) -> bool:
        try:
            info = await self._registrar.register(path, retried)
        except RegistrationFailed as error:
            if isinstance(error, PluginSilent) and not retried:
                return False  # a busy machine needs longer than the first try
            if self._logged.get(path) != str(error):  # once per error, not once per try
                self._options.log.warning("plugin registration failed socket=%s error=%s", path.name, error)
            self._logged[path] = str(error)
            return False
        self._logged.pop(path, None)
        self._options.log.info("plugin registered type=%s name=%s endpoint=%s", info.type, info.name, info.endpoint)
        return True

    async def _deregister(self, path: Path) -> bool:
        await self._registrar.deregister(path)
        self._options.log.info("plugin deregistered socket=%s", path.name)
        return True


PLUGINS = GaugeFamily(
    "plugin_manager_total_plugins",
    "Sockets below plugins_registry, desired and registered.",
    ("socket_path", "state"),
)


class Totals(Collector):
    """Collects plugin_manager_total_plugins."""

    def __init__(self, state: RegistryState) -> None:
        self._state = state

    def collect(self) -> Iterable[Metric]:
        metric = labelled(PLUGINS)
        for path, (actual, desired) in self._state.counts().items():
            for state, holds in (("actual_state_of_world", actual), ("desired_state_of_world", desired)):
                if holds:
                    metric.add_metric([str(path), state], 1)
        yield metric
