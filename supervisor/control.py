"""The supervisor's own bus endpoint: beats in, status out, and the orders of the command line."""

import itertools
import time
from collections.abc import Callable

import msgspec

from protocols.bus import Bus, Call
from protocols.messages import supervisor as messages
from protocols.settings import Settings
from supervisor.errors import Usage
from supervisor.metrics.page import own_text
from supervisor.report.status import actor_status, endpoints
from supervisor.root.lock import held
from supervisor.tree.groups import APISERVER, WATCHER, check_watchers, watcher
from supervisor.tree.spec import ChildSpec
from supervisor.tree.tree import Tree

SCALE_STOP_S = 10.0
SIGNALS = range(1, 65)


class ControlOptions(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    pid: int
    settings: Settings
    started_at: float
    """Monotonic."""
    metrics: Callable[[], str]
    """Where the metrics page is, or why it is not."""
    stop: Callable[[bool], None]
    """Begin the shutdown; True also stops containers."""


class Control:
    def __init__(self, options: ControlOptions, bus: Bus, tree: Tree) -> None:
        self._options = options
        self._tree = tree
        bus.serve(messages.BEAT, messages.Beat, self._beat)
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

    async def _beat(self, beat: messages.Beat, call: Call) -> messages.Empty:
        self._tree.hear(beat)
        return messages.Empty()

    async def _status(self, request: messages.Empty, call: Call) -> messages.PlaneStatus:
        return self.status()

    async def _kill(self, request: messages.KillActor, call: Call) -> messages.Empty:
        if request.signal not in SIGNALS:
            raise Usage(f"{request.signal} is no signal; use 1 to 64")
        self._tree.kill(request.instance, request.signal)
        return messages.Empty()

    async def _restart(self, request: messages.ActorName, call: Call) -> messages.Empty:
        self._tree.restart(request.instance)
        return messages.Empty()

    async def _scale(self, request: messages.ScaleActor, call: Call) -> messages.Empty:
        """Answered when the surplus is gone; new ones are starting then."""
        if request.actor not in (WATCHER, APISERVER):
            raise Usage(f"{request.actor!r} cannot be scaled; only `watcher` runs more than once")
        check_watchers(request.count)
        running = [name for name, child in self._tree.children.items() if child.spec.actor == APISERVER]
        if not running:
            raise Usage("this supervisor runs no watcher group")
        await self._resize(running, request.count)
        return messages.Empty()

    async def _resize(self, running: list[str], count: int) -> None:
        surplus = running[count:]
        await self._tree.stop(surplus, time.monotonic() + SCALE_STOP_S)
        for name in surplus:
            self._tree.forget(name)
        for _ in range(count - len(running)):
            self._tree.add(self._free_watcher(int(running[0].rsplit("-", 1)[1])))

    def _free_watcher(self, first: int) -> ChildSpec:
        """The next one whose name is free: other lines of honcho run some too."""
        run_dir = self._options.settings.layout.run
        for spec in map(watcher, itertools.count(first + 1)):
            if spec.instance not in self._tree.children and not held(run_dir / f"{spec.instance}.lock"):
                return spec
        raise AssertionError("there is always another number")

    async def _stop(self, request: messages.StopPlane, call: Call) -> messages.Empty:
        self._options.stop(request.containers)
        return messages.Empty()

    async def _metrics(self, request: messages.Empty, call: Call) -> messages.MetricsText:
        return messages.MetricsText(own_text(self._tree, self._options.started_at))
