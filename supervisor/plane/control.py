"""The supervisor's bus endpoint: heartbeats of actors, status, and orders of the command line."""

import asyncio
import itertools
import signal
import time
from collections.abc import Awaitable, Callable

import msgspec

from protocols.bus import Bus, Call
from protocols.messages import supervisor as messages
from protocols.process.files import is_locked
from protocols.process.settings import Settings
from supervisor.base.errors import UsageError
from supervisor.base.groups import (
    APISERVER,
    EMBEDDED,
    EVALUATING,
    NODE,
    WATCHER,
    ChildSpec,
    additional_node,
    check_nodes,
    check_watchers,
    watcher,
    worker,
)
from supervisor.report.status import actor_status, endpoints
from supervisor.tree.tree import Tree

SCALE_STOP_S = 10.0


class ControlOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor as its endpoint sees it: facts to report, functions to call."""

    name: str
    pid: int
    settings: Settings
    started_at: float
    """Monotonic time."""
    metrics: Callable[[], str]
    """Returns the URL of the metrics page, or why there is none."""
    own_metrics: Callable[[], str]
    """Returns the supervisor's own metrics as text."""
    stop: Callable[[bool], None]
    """Begin the shutdown; True also stops containers."""
    stop_nodes: Callable[[list[str]], Awaitable[None]]
    """Stop these nodes and their containers."""


class Control:
    """Serves the supervisor's RPCs from the moment it is made."""

    def __init__(self, options: ControlOptions, bus: Bus, tree: Tree) -> None:
        self._options = options
        self._tree = tree
        self._scaling = asyncio.Lock()
        bus.serve(messages.HEARTBEAT, messages.Heartbeat, self._beat)
        bus.serve(messages.STATUS, messages.Empty, self._status)
        bus.serve(messages.KILL, messages.KillActor, self._kill)
        bus.serve(messages.RESTART, messages.ActorName, self._restart)
        bus.serve(messages.SCALE, messages.ScaleActor, self._scale)
        bus.serve(messages.STOP, messages.StopPlane, self._stop)
        bus.serve(messages.METRICS, messages.Empty, self._metrics)

    def status(self) -> messages.PlaneStatus:
        now = time.monotonic()
        return messages.PlaneStatus(
            supervisor=self._options.name,
            pid=self._options.pid,
            uptime_s=round(now - self._options.started_at, 3),
            actors=tuple(actor_status(child, now) for child in self._tree.children.values()),
            endpoints=endpoints(self._options.settings, self._options.metrics()),
        )

    async def _beat(self, beat: messages.Heartbeat, call: Call) -> messages.Empty:
        self._tree.on_beat(beat)
        if beat.worker:
            self._run_worker(beat.instance)
        return messages.Empty()

    def _run_worker(self, instance: str) -> None:
        """Run the worker for expressions of an actor, before it in the order of the tree."""
        served = self._tree.children.get(instance)
        if served is not None and served.spec.actor in EVALUATING:
            spec = worker(instance, served.spec.group)
            if spec.instance not in self._tree.children:
                self._tree.add(spec, before=instance)

    async def _status(self, request: messages.Empty, call: Call) -> messages.PlaneStatus:
        return self.status()

    async def _kill(self, request: messages.KillActor, call: Call) -> messages.Empty:
        if request.signal not in signal.valid_signals():
            raise UsageError(f"{request.signal} is no signal; use 1 to 64")
        self._tree.kill(request.instance, request.signal)
        return messages.Empty()

    async def _restart(self, request: messages.ActorName, call: Call) -> messages.Empty:
        self._tree.restart(request.instance)
        return messages.Empty()

    async def _scale(self, request: messages.ScaleActor, call: Call) -> messages.Empty:
        """Scale; the answer is sent once the surplus is gone, while new processes start."""
        async with self._scaling:  # the next order counts what this one leaves
            await (self._scale_nodes if request.actor == NODE else self._scale_watchers)(request)
        return messages.Empty()

    async def _scale_watchers(self, request: messages.ScaleActor) -> None:
        if request.actor not in (WATCHER, APISERVER):
            raise UsageError(f"{request.actor!r} cannot be scaled; only `watcher` and `node` run more than once")
        check_watchers(request.count)
        running = [name for name, child in self._tree.children.items() if child.spec.actor == APISERVER]
        if not running:
            raise UsageError("this supervisor runs no watcher group")
        await self._resize(running, request.count)

    async def _scale_nodes(self, request: messages.ScaleActor) -> None:
        """Add or remove nodes by number; the first one stays."""
        settings, children, count = self._options.settings, self._tree.children, request.count
        if settings.joined or not any(child.spec.group == NODE for child in children.values()):
            raise UsageError("this supervisor runs no node group of a plane")
        check_nodes(count, EMBEDDED if settings.runtime_embedded else settings.runtime_endpoint)
        settings.check_node_paths(count)
        wanted = {spec.instance: spec for spec in map(additional_node, range(2, count + 1))}
        surplus = [name for name, child in children.items() if child.spec.actor == NODE and name not in wanted]
        await self._options.stop_nodes(surplus)
        for name in surplus:
            self._tree.forget(name)
        for name, spec in wanted.items():
            if name not in children:
                self._tree.add(spec)

    async def _resize(self, running: list[str], count: int) -> None:
        surplus = running[count:]
        workers = [worker(name, WATCHER).instance for name in surplus]
        for names in (surplus, [name for name in workers if name in self._tree.children]):
            await self._tree.stop(names, time.monotonic() + SCALE_STOP_S)
            for name in names:
                self._tree.forget(name)
        for _ in range(count - len(running)):
            self._tree.add(self._free_watcher(int(running[0].rsplit("-", 1)[1])))

    def _free_watcher(self, first: int) -> ChildSpec:
        """Return the next API process whose name is free, since other watcher lines of honcho run some too."""
        run_dir = self._options.settings.layout.run
        for spec in map(watcher, itertools.count(first + 1)):
            if spec.instance not in self._tree.children and not is_locked(run_dir / f"{spec.instance}.lock"):
                return spec
        raise AssertionError("there is always another number")

    async def _stop(self, request: messages.StopPlane, call: Call) -> messages.Empty:
        self._options.stop(request.containers)
        return messages.Empty()

    async def _metrics(self, request: messages.Empty, call: Call) -> messages.MetricsText:
        return messages.MetricsText(self._options.own_metrics())
