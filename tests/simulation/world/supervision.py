"""The project's own supervision tree and policy, over a simulated forkserver.

- The supervisor is a process as any other: it may be paused and killed, and its clock may jump. With it die the
  forkserver and every child, as by parent-death signals; the machine's own init starts it again.
- A child that exceeded its budget ends the plane if it is critical, and is started again at the end of the faults if
  it is not, as an operator would.
"""

import asyncio
import itertools
import os
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from protocols.bus import Bus, BusOptions
from protocols.process.settings import Settings
from supervisor.base.groups import ChildSpec, SupervisionLimits
from supervisor.forkserver import wire
from supervisor.plane.control import Control, ControlOptions
from supervisor.tree import tree as tree_module
from supervisor.tree.policy import Child
from supervisor.tree.states import ChildState, ChildUsage, ProcessExit
from supervisor.tree.tree import Tree, TreeOptions
from tests.simulation.model import Broken, Fault
from tests.simulation.world.actors import SUPERVISOR
from tests.simulation.world.faults import KINDS
from tests.simulation.world.patching import patch
from tests.simulation.world.process import Process, running
from tests.simulation.world.world import TURN

if TYPE_CHECKING:
    from tests.simulation.world.world import World

INIT_S = 0.1, 2.0
"""Seconds after which init starts a supervisor again."""
OUTLAST_S = 5.0
"""Seconds for which disks may fail after the last fault began."""
FORK_S = 0.002, 0.05


SUPERVISION_FAULTS = "hang", "restart"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is supervised."""

    specs: tuple[ChildSpec, ...]
    settings: Settings
    limits: SupervisionLimits = SupervisionLimits()


def drawn_limits(world: "World", prefix: str = "") -> SupervisionLimits:
    """Return a machine's limits of which the budget is drawn: with a small one, ends that must not count show."""
    return SupervisionLimits(crashes=int(world.draw(f"{prefix}crashes", 4, 30)))


class SimForkserver:
    """Stands for supervisor.forkserver.client.ForkClient and the process behind it."""

    _descriptors = itertools.count(1000)

    def __init__(self, supervision: "Supervision", process: Process) -> None:
        self._world, self._owner, self._supervision = supervision.world, process, supervision
        self._descriptor = next(self._descriptors)
        self._reports: list[wire.Report] = []
        self._alive = True
        self.pid = self._descriptor
        self.paused_until = 0.0
        self.children: dict[int, str] = {}
        supervision.forkserver = self

    def fileno(self) -> int:
        return self._descriptor

    def send(self, order: wire.Order) -> bool:
        if self._alive:
            low, high = FORK_S
            delay = self._supervision.chance.uniform(low, high)
            self._world.at(max(delay, self.paused_until - self._world.now), None, lambda: self._obey(order))
        return self._alive

    def _obey(self, order: wire.Order) -> None:
        if not self._alive:
            return
        if isinstance(order, wire.Ping):
            self.report(wire.Pong(loading=False))
            return
        process = self._world.spawn(self._supervision.prefix + order.instance)
        self.children[process.pid] = order.instance
        self.report(wire.Forked(order.instance, process.pid))

    def report(self, report: wire.Report) -> None:
        self._reports.append(report)
        self._wake()

    def _wake(self) -> None:
        reader = self._owner.loop.readers.get(self._descriptor)
        if reader is not None:
            self._world.at(self._world.latency(), self._owner, reader)

    def ended(self, process: Process, code: int, number: int) -> None:
        """Report the end of a child, with the status that waitpid would return."""
        instance = self.children.pop(process.pid, None)
        if instance is not None and self._alive:
            self.report(wire.Exited(instance, process.pid, number or code << 8))

    def reports(self, on_report: Any) -> bool:
        taken, self._reports = self._reports, []
        for report in taken:
            on_report(report)
        return self._alive

    def signal(self, number: int) -> None:
        if number == signal.SIGKILL:
            self.die()
        elif number == signal.SIGCONT:
            self.paused_until = 0.0

    def die(self) -> None:
        """End it, and by their parent-death signals its children."""
        if self._alive:
            self._alive = False
            for pid, instance in list(self.children.items()):
                process = self._world.processes.get(self._supervision.prefix + instance)
                if process is not None and process.pid == pid:
                    self._world.end(process, 0, signal.SIGKILL)
            self.children.clear()
            self._wake()

    def close(self) -> None:
        self.die()


class Supervision:
    """Starts a machine's supervisor, and again whenever it has ended.

    `prefix` is that of the names that the machine's processes have in the world.
    """

    def __init__(self, world: "World", plan: Plan, prefix: str = "") -> None:
        self.world, self._plan, self.prefix = world, plan, prefix
        self.name = prefix + SUPERVISOR
        self.forkserver: SimForkserver | None = None
        self.chance = world.random(f"{prefix}supervision")
        self.escalations: list[str] = []
        self.broken: list[Broken] = []
        self._ordered: set[int] = set()
        """Process ids that were killed by order."""
        self._crashed: Counter[Child] = Counter()
        """Ends that nobody ordered."""
        world.mains[self.name] = self._main
        world.on_end.append(self._on_end)
        patch(os, "kill", self._os_kill)
        patch(tree_module, "usage_of", self._usage_of)
        patch(Tree, "launch", staticmethod(lambda options: _launch(running(world))))
        self._watch_budgets()
        KINDS.update({"hang": hang, "restart": restart})

    @property
    def tree(self) -> Tree | None:
        """The tree of the supervisor that runs now."""
        process = self.world.processes.get(self.name)
        found: Tree | None = process.notes.get("tree") if process else None
        return found

    def kill(self, name: str) -> None:
        """Kill a process as `nodeplane chaos` does: the supervisor orders it, so that its budget is spared."""
        process, tree, instance = self.world.processes.get(self.name), self.tree, name.removeprefix(self.prefix)
        if process is None or tree is None or instance not in tree.children:
            self.world.kill(name)
        else:
            self._ordered.add(tree.children[instance].pid)
            process.run(lambda: tree.kill(instance, signal.SIGKILL))

    def _has(self, child: Child) -> bool:
        return (tree := self.tree) is not None and tree.children.get(child.spec.instance) is child

    def _watch_budgets(self) -> None:
        """Record children that are given up for less than they may do."""
        fail, exited, supervision = Child._fail, Child.exited, self

        def ended(child: Child, how: ProcessExit, now: float) -> Any:
            stops = child.state is ChildState.STOPPING
            supervision._crashed[child] += child.has_process and not stops and child.pid not in supervision._ordered
            return exited(child, how, now)

        def failed(child: Child, reason: str) -> Any:
            name, limits = supervision.prefix + child.spec.instance, child.limits
            least = {"crashed": limits.crashes, "died": limits.start_failures}.get(reason.partition(" ")[0], 0)
            if (crashed := supervision._crashed[child]) < least and supervision._has(child):
                text = f"{name} is given up after {crashed} crashes: {reason}"
                supervision.broken.append(Broken("ordered ends do not count", text, supervision.world.elapsed))
            return fail(child, reason)

        patch(Child, "exited", ended)
        patch(Child, "_fail", failed)

    def start_failed(self) -> None:
        """Start what the supervisor gave up, as an operator does; again when the last faults are over."""
        self._start_failed()
        self.world.at(OUTLAST_S, None, self._start_failed)

    def _start_failed(self) -> None:
        process, tree = self.world.processes.get(self.name), self.tree
        for name, child in tree.children.items() if process and tree else ():
            if child.state is ChildState.FAILED and process and tree:
                process.run(lambda name=name: tree.restart(name))  # type: ignore[misc]

    async def _main(self, process: Process) -> int:
        settings, stopping = self._plan.settings, asyncio.Event()

        def fail(reason: str) -> None:
            self.escalations.append(reason)
            self.world.happened(self.name, f"ends the plane: {reason}")
            process.notes["ends"] = True
            stopping.set()

        bus = Bus(BusOptions(name=SUPERVISOR, run_dir=settings.layout.run))
        await bus.start()
        options = TreeOptions(
            specs=self._plan.specs,
            argv=(),
            logs=settings.layout.logs,
            root=settings.layout.root,
            limits=self._plan.limits,
            on_failed=fail,
            say=lambda line: self.world.happened(self.name, line),
        )
        process.notes["supervision"] = self
        tree = process.notes["tree"] = Tree(options, _launch(process))  # type: ignore[arg-type]  # stands for the client
        Control(self._control_options(settings, process), bus, tree)
        tree.start()
        await stopping.wait()
        await tree.stop(reversed(tree.children), asyncio.get_running_loop().time() + self._plan.limits.shutdown_s)
        await bus.close()
        tree.close()
        return 1

    def _control_options(self, settings: Settings, process: Process) -> ControlOptions:
        async def stop_nodes(names: list[str]) -> None: ...

        return ControlOptions(
            name=SUPERVISOR,
            pid=process.pid,
            settings=settings,
            started_at=asyncio.get_running_loop().time(),
            metrics=str,
            own_metrics=str,
            stop=lambda containers: None,
            stop_nodes=stop_nodes,
        )

    def _on_end(self, process: Process, code: int, signal_number: int) -> None:
        if process.name == self.name:
            if self.forkserver is not None:
                self.forkserver.die()
            delay = self.chance.uniform(*INIT_S)
            self.world.at(delay, None, lambda: self.name in self.world.processes or self.world.spawn(self.name))
        elif self.forkserver is not None:
            self.forkserver.ended(process, code, signal_number)

    def _os_kill(self, pid: int, number: int) -> None:
        found = next((process for process in self.world.processes.values() if process.pid == pid), None)
        if found is None:
            raise ProcessLookupError(3, "No such process")
        if number == signal.SIGCONT:
            found.paused_until = float("inf") if "hangs" in found.notes else 0.0
        elif number == signal.SIGSTOP:
            found.paused_until = float("inf")
        elif number == signal.SIGKILL:
            self.world.end(found, 0, number)
        elif found.paused_until > self.world.now:
            self.world.at_time(found.paused_until, None, lambda: found.signal(number))
        else:
            found.signal(number)

    def _usage_of(self, pid: int) -> ChildUsage | None:
        found = next((process for process in self.world.processes.values() if process.pid == pid), None)
        if found is None:
            return None
        stopped = found.paused_until > self.world.now and "hangs" not in found.notes
        return ChildUsage(found.turns * TURN, runnable=False, stopped=stopped)


def _supervision(world: "World", target: str) -> "tuple[Process, Tree, str] | None":
    """Return the supervisor that starts a process, its tree and its name there. None: no supervisor that runs."""
    for process in world.processes.values():
        found: Supervision | None = process.notes.get("supervision")
        if found is not None and target.startswith(found.prefix) and (tree := found.tree) is not None:
            instance = target.removeprefix(found.prefix)
            if instance in tree.children:
                return process, tree, instance
    return None


def hang(world: "World", fault: Fault) -> None:
    """Let a child's loop wait for ever: it neither works nor ends. One that starts would be waited for too long."""
    process, found = world.processes.get(fault.target), _supervision(world, fault.target)
    if process is None or found is None:
        return
    _, tree, instance = found
    child = tree.children[instance]
    if child.beat is not None and child.pid == process.pid:
        process.notes["hangs"], process.paused_until = True, float("inf")


def restart(world: "World", fault: Fault) -> None:
    """Order a restart, as `nodeplane restart` does; of a plane that is going down nobody does."""
    found = _supervision(world, fault.target)
    if found and "ends" not in found[0].notes:
        process, tree, instance = found
        process.run(lambda: tree.restart(instance))


def _launch(process: Process) -> SimForkserver:
    supervision: Supervision = process.notes["supervision"]
    return SimForkserver(supervision, process)
