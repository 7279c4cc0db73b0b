"""The supervisor process: joins tree, bus, metrics and signals, from the first fork to the removal of the last socket.

It owns nothing durable: kill -9 of it ends every actor by parent-death signals, and the next start cleans up.
"""

import asyncio
import math
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from protocols.bus import Bus, BusError, BusOptions
from protocols.errors import NodeplaneError
from protocols.messages import runtime
from protocols.messages.supervisor import STOP, Empty, StopPlane
from protocols.process.proc import stat_fields
from protocols.process.settings import Settings
from protocols.process.tasks import Tasks, awaited, restarted
from supervisor.base.errors import PlaneFailed
from supervisor.base.groups import NODE, NODE_GRACE_S, SupervisionLimits
from supervisor.forkserver.client import ForkClient
from supervisor.pki import certificates, kubeconfig
from supervisor.pki.issuing import Issuing
from supervisor.plane.control import Control, ControlOptions
from supervisor.report.console import Console, still_waiting, summary
from supervisor.report.http import MetricsHttp
from supervisor.report.metrics import own_text, whole_page
from supervisor.report.status import all_serving
from supervisor.report.systemd import Notifier
from supervisor.root import leftovers, logs
from supervisor.startup.prepared import Parent, Prepared
from supervisor.tree.states import SERVING
from supervisor.tree.tree import Tree, TreeOptions

if TYPE_CHECKING:
    from supervisor.plane.parent import ParentLink

CONTAINER_GRACE_S = 2.0
STOP_CONTAINERS_S = CONTAINER_GRACE_S + 3.0
MAX_EXTENSIONS = 10
"""Times of `ready_s` after which a start ends though it makes progress: actors may fail in turns."""
ORDER_S = 2.0
SECOND_S = 1.0
ROTATE_EVERY_S = 10.0
TICK_LIMIT_S = 5.0
"""Age of the last pass over the actors with which systemd's watchdog is still fed; a pass is due each second."""


class SupervisorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A prepared plane, its output, and where the supervisor belongs."""

    prepared: Prepared
    console: Console
    started_at: float
    """Monotonic time at which the command started."""
    limits: SupervisionLimits = SupervisionLimits()
    ready_s: float = 0.0
    """Seconds without progress after which a plane that is not ready ends; 0: it waits for ever."""
    parent: Parent | None = None
    """The plane's supervisor, if this is one of several nodes."""
    containers_on_term: bool = False
    """SIGTERM stops containers too: under honcho, Ctrl-C arrives as SIGTERM."""
    certificates_end: float | None = None
    """Unix time at which the first certificate expires; read once, since only a start renews them."""


class Supervisor:
    """One supervisor process, from start to stop."""

    def __init__(self, options: SupervisorOptions, forkserver: ForkClient) -> None:
        self._options = options
        self._prepared = options.prepared
        self._settings = options.prepared.settings
        self._console = options.console
        self._run_dir = self._settings.layout.run
        self._stopping = asyncio.Event()
        self._containers = False
        self._failure = ""
        self._notifier = Notifier()
        self._bus = Bus(BusOptions(name=self._prepared.name, run_dir=self._run_dir))
        self._tree = Tree(self._tree_options(), forkserver)
        self._link = _link(options.parent, self._stop) if options.parent else None
        self._metrics = MetricsHttp(
            self._page,
            self._serving,
            self._run_dir / "metrics.lock",
            port=self._settings.metrics_port,
            host=self._settings.metrics_address,
        )

    def _serving(self) -> dict[str, bool]:
        return {name: child.state in SERVING for name, child in self._tree.children.items()}

    def _tree_options(self) -> TreeOptions:
        argv = ("--settings", str(self._prepared.settings_file), "--supervisor", self._prepared.name)
        return TreeOptions(
            specs=self._prepared.specs,
            argv=argv,
            logs=self._settings.layout.logs,
            root=self._settings.layout.root,
            limits=self._options.limits,
            on_failed=self._fail,
            say=self._console.say,
        )

    async def run(self) -> int:
        """Run until the plane has ended; return the exit code."""
        self._watch_signals()
        await self._bus.start()
        if self._link:
            await self._link.start()
        control = Control(self._control_options(), self._bus, self._tree)
        self._console.watch(self._settings.layout.logs, self._tree.children)
        self._tree.start()
        await self._metrics.start()
        tasks = Tasks()
        tasks.start(self._announce(control), "announcement")
        tasks.start(restarted(self._every_second, "housekeeping"), "housekeeping")
        tasks.start(restarted(self._rotate_logs, "log rotation"), "log rotation")
        await self._stopping.wait()
        tasks.cancel()
        await self._shut_down()
        return self._report_end()

    def _control_options(self) -> ControlOptions:
        return ControlOptions(
            name=self._prepared.name,
            pid=os.getpid(),
            settings=self._settings,
            started_at=self._options.started_at,
            metrics=lambda: self._metrics.endpoint,
            own_metrics=self._own_metrics,
            stop=self._stop,
            stop_nodes=self._stop_nodes,
        )

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupted)
        loop.add_signal_handler(signal.SIGTERM, self._stop, self._options.containers_on_term)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup
            loop.add_signal_handler(signal.SIGHUP, self._stop, True)

    def _interrupted(self) -> None:
        if self._stopping.is_set():
            self._kill_all()
            os._exit(1)
        self._stop(True)

    def _stop(self, containers: bool) -> None:
        self._containers = self._containers or containers
        self._stopping.set()

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or reason
        self._stopping.set()

    async def _announce(self, control: Control) -> None:
        children = self._tree.children
        slow_start = awaited(self._report_slow_start(control))
        while not all(child.settled for child in children.values()):
            self._tree.changed.clear()
            await self._tree.changed.wait()
        slow_start.cancel()
        seconds = time.monotonic() - self._options.started_at
        text = summary(control.status(), seconds)
        if self._link:
            self._link.report(self._node_note(), ready=True)
        self._notifier.ready(self._serving_note())  # also without a dispensable actor, which must not end the service
        if all_serving(children.values()):
            self._console.ready(text)
        else:
            self._console.failed(text)

    def _node_note(self) -> str:
        """Return the note that the plane's status shows for this node."""
        return f"node {self._settings.node_name} below {self._settings.root}{self._down_note()}"

    def _serving_note(self) -> str:
        """Return the line that `systemctl status` shows."""
        up = sum(self._serving().values())
        return f"{up} of {len(self._tree.children)} actors serve{self._down_note()}"

    def _down_note(self) -> str:
        down = [name for name, is_serving in self._serving().items() if not is_serving]
        return f"; not serving: {', '.join(down)}" if down else ""

    async def _report_slow_start(self, control: Control) -> None:
        """Report what a slow start waits for, when that changes; end the plane when no further actor gets ready.

        On a slow machine a start takes long, and goes on.
        """
        reported, before, limit = "", 0, self._options.ready_s or math.inf
        ends = time.monotonic() + limit
        last = time.monotonic() + limit * MAX_EXTENSIONS
        while (left := ends - time.monotonic()) > 0:
            await asyncio.sleep(min(self._options.limits.slow_start_s, left))
            waiting = still_waiting(control.status())
            if waiting and waiting != reported:
                self._console.waiting(waiting)
            reported = waiting
            ready = sum(child.settled for child in self._tree.children.values())
            ends = min(last, time.monotonic() + limit) if ready > before else ends
            before = ready
        self._fail(f"no progress in {limit:g} s (--timeout); {reported or 'its processes are still starting'}")

    async def _every_second(self) -> None:
        while True:
            await asyncio.sleep(SECOND_S)
            self._console.show_new(self._settings.layout.logs, self._tree.children)
            if self._link:
                self._link.report(self._node_note())
            self._check_files()
            if self._tree.ticked_s() < TICK_LIMIT_S:
                self._notifier.alive()
            self._notifier.status(self._serving_note())
            _reap_orphans()

    async def _rotate_logs(self) -> None:
        """Bound the logs, apart from all else since a slow disk takes its time."""
        while True:
            await asyncio.sleep(ROTATE_EVERY_S)
            await asyncio.to_thread(logs.rotate, self._settings.layout.logs)

    def _check_files(self) -> None:
        """End the plane if its locks were removed, since another could start; restart actors without sockets."""
        if self._prepared.lock.lost or not leftovers.has_endpoints(self._run_dir, self._prepared.name):
            return self._fail(f"{self._run_dir} was removed or emptied under the running plane; start it again")
        serving = [name for name, is_serving in self._serving().items() if is_serving]
        for name in serving:
            if leftovers.has_endpoints(self._run_dir, name):
                continue
            self._console.say(f"{name}: its socket below {self._run_dir} was removed; it starts anew")
            self._tree.restart(name, "its socket was removed")
        return None

    async def _shut_down(self) -> None:
        self._notifier.stopping()
        deadline = time.monotonic() + self._options.limits.shutdown_s
        for actor in reversed(self._actors()):
            instances = [name for name, child in self._tree.children.items() if child.spec.actor == actor]
            if actor == runtime.OWNER and self._containers:
                await self._stop_containers()
            if actor == NODE and self._containers:
                await self._stop_nodes(instances)
            await self._tree.stop(instances, deadline)
        await self._metrics.close()
        await self._bus.close()
        if self._link:
            await self._link.close()
        self._kill_all()
        if self._containers and runtime.OWNER in self._actors():
            leftovers.unmount_below(Path(self._settings.root))

    def _actors(self) -> list[str]:
        return list(dict.fromkeys(child.spec.actor for child in self._tree.children.values()))

    async def _stop_nodes(self, instances: list[str]) -> None:
        await asyncio.gather(*map(self._stop_node, instances))

    async def _stop_node(self, instance: str) -> None:
        """Order a node to stop with its containers, then send the signal, which alone would leave them running."""
        with suppress(BusError):
            order = StopPlane(containers=True)
            await self._bus.call(instance, STOP, order, Empty, timeout=ORDER_S, idempotent=True)
        await self._tree.stop([instance], time.monotonic() + NODE_GRACE_S)

    async def _stop_containers(self) -> None:
        request = runtime.StopContainers(CONTAINER_GRACE_S)
        method, reply = runtime.STOP_CONTAINERS, runtime.Empty
        try:
            await self._bus.call(runtime.OWNER, method, request, reply, timeout=STOP_CONTAINERS_S, idempotent=True)
        except BusError as error:
            self._console.say(f"containers may still run: {error}")

    def _kill_all(self) -> None:
        """Kill every process that is left and remove the sockets."""
        instances = list(self._tree.children)
        self._tree.close()
        leftovers.wait_released(self._run_dir, instances)
        leftovers.remove_all(self._run_dir, instances)
        if not self._prepared.lock.lost:
            leftovers.remove(self._run_dir, self._prepared.name)

    def _report_end(self) -> int:
        if self._failure:
            self._console.failed(str(PlaneFailed(self._failure)))
            return PlaneFailed.exit_code
        return 0

    async def _page(self) -> str:
        return await whole_page(self._bus, self._prepared.name, self._own_metrics(), self._run_dir)

    def _own_metrics(self) -> str:
        return own_text(self._tree, self._options.started_at, self._options.certificates_end)


def run(options: SupervisorOptions, forkserver: ForkClient, issuing: Issuing | None) -> int:
    """Run a prepared plane to its end. Raises SupervisorError if it cannot start."""
    try:
        if issuing:
            issuing.wait()
        settings = options.prepared.settings
        if not (settings.adopt or settings.joined):
            kubeconfig.write_kubeconfig(settings.layout, settings.api_url)
        options = msgspec.structs.replace(options, certificates_end=_certificates_end(settings))
        return asyncio.run(_run(options, forkserver))
    except (NodeplaneError, OSError):
        forkserver.close()
        raise
    finally:
        options.prepared.release()


def _certificates_end(settings: Settings) -> float | None:
    if not settings.joined:
        return certificates.expiry(settings.layout.pki)
    from supervisor.startup.join import read_node_config  # a joined node has loaded it

    with suppress(NodeplaneError):
        return read_node_config(settings.layout.node_kubeconfig).not_after
    return None


def _link(parent: Parent, stop: Callable[[bool], None]) -> "ParentLink":
    from supervisor.plane.parent import ParentLink  # loads the actor library, which a plane's supervisor does without

    return ParentLink(parent, stop)


async def _run(options: SupervisorOptions, forkserver: ForkClient) -> int:
    return await Supervisor(options, forkserver).run()


def _reap_orphans() -> None:
    """Reap inherited processes, as PID 1 of a container must."""
    if os.getpid() != 1:
        return
    for entry in Path("/proc/self/task/1/children").read_text().split():
        _reap(int(entry))


def _reap(pid: int) -> None:
    if stat_fields(pid)[:1] == [b"Z"]:
        with suppress(OSError):
            os.waitpid(pid, os.WNOHANG)
