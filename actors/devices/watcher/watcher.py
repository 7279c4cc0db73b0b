"""Follows plugins_registry/: every socket in it is asked what it is, and taken in or off as it comes and goes."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from actors.devices.model.errors import RegistrationFailed
from actors.devices.watcher.registrar import Handler, Registrar
from actors.devices.watcher.sockets import Kind, Progress, Scan, Step, scan
from protocols.inotify import Changes
from protocols.sockets import prepare_directory

RESCAN_S = 60.0
"""Notifications are enough; a look now and then costs nothing and needs no faith."""
AT_ONCE = 32
"""Registrations under way; one takes up to half a minute when its plugin hangs."""


@dataclass(frozen=True)
class WatcherOptions:
    directory: Path
    handlers: Mapping[str, Handler]
    """By type of plugin."""
    registry: CollectorRegistry
    log: logging.Logger


class PluginWatcher:
    def __init__(self, options: WatcherOptions) -> None:
        self._options = options
        self._progress = Progress()
        self._registrar = Registrar(options.handlers)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._told: dict[Path, str] = {}
        self._full = False
        options.registry.register(Totals(self._progress))

    async def run(self) -> None:
        """Never ends. Registrations under way end with it."""
        changes = Changes()
        try:
            while True:
                await self._look(changes)
                now = time.monotonic()
                for step in self._progress.begin(now):
                    self._begin(step, changes)
                due = self._progress.next_due()
                await changes.wait(RESCAN_S if due is None else max(0.0, min(due - now, RESCAN_S)))
        finally:
            changes.close()
            for task in self._tasks:
                task.cancel()

    async def _look(self, changes: Changes) -> None:
        """A directory is watched before it is read, so nothing slips between."""
        found = await asyncio.to_thread(self._scan)
        while changes.watch(found.directories):
            found = await asyncio.to_thread(self._scan)
        if found.full and not self._full:
            self._options.log.warning("%s holds more sockets than are looked at", self._options.directory)
        self._full = found.full
        self._progress.seen(found.sockets, time.monotonic())
        self._told = {path: text for path, text in self._told.items() if path in found.sockets}

    def _scan(self) -> Scan:
        prepare_directory(self._options.directory)
        return scan(self._options.directory)

    def _begin(self, step: Step, changes: Changes) -> None:
        task = asyncio.create_task(self._do(step, changes), name=f"{step.kind.value} {step.path.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _do(self, step: Step, changes: Changes) -> None:
        async with self._slots:
            good = await (self._register(step.path) if step.kind is Kind.REGISTER else self._deregister(step.path))
        self._progress.finished(step, good, time.monotonic())
        changes.wake()

    async def _register(self, path: Path) -> bool:
        try:
            found = await self._registrar.register(path)
        except RegistrationFailed as error:
            if self._told.get(path) != str(error):  # once per trouble, not once per try
                self._options.log.warning("plugin at %s not registered: %s", path.name, error)
            self._told[path] = str(error)
            return False
        self._told.pop(path, None)
        self._options.log.info("plugin registered: %s %s at %s", found.type, found.name, found.endpoint)
        return True

    async def _deregister(self, path: Path) -> bool:
        await self._registrar.deregister(path)
        self._options.log.info("plugin gone: its socket %s was removed", path.name)
        return True


class Totals(Collector):
    """plugin_manager_total_plugins, as upstream has it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def collect(self) -> Iterable[Metric]:
        metric = GaugeMetricFamily(
            "plugin_manager_total_plugins", "Number of plugins in Plugin Manager", labels=["socket_path", "state"]
        )
        for path, (actual, desired) in self._progress.counts().items():
            for state, holds in (("actual_state_of_world", actual), ("desired_state_of_world", desired)):
                if holds:
                    metric.add_metric([str(path), state], 1)
        yield metric

    def describe(self) -> Iterable[Metric]:
        return []
