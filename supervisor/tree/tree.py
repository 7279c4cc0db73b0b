"""The supervision tree: performs the actions of each child's state machine through the forkserver. It has no bus."""

import asyncio
import enum
import os
import signal
import time
from collections.abc import Callable, Iterable
from itertools import dropwhile
from pathlib import Path

import msgspec

from protocols.messages.supervisor import Heartbeat
from protocols.process import stalls
from protocols.process.layout import layout
from protocols.process.tasks import wait_set
from supervisor.base.errors import ForkserverLost, NoSuchActor
from supervisor.base.groups import ChildSpec, SupervisionLimits
from supervisor.forkserver import client, wire
from supervisor.forkserver.client import ForkClient
from supervisor.root import logs
from supervisor.tree.policy import Child
from supervisor.tree.states import SERVING, Action, ChildState, GiveUp, ProcessExit, Signal, Spawn, usage_of

PING_S = 2.0


class LivenessVerdict(enum.StrEnum):
    """Decision about a child without heartbeats."""

    FINE = "fine"
    WAKE = "wake"
    """It may be stopped: SIGCONT repairs that at no cost."""
    KILL = "kill"


class ForkserverLiveness:
    """State machine of the forkserver's liveness, without clock or process.

    Invariants: while it imports, it has the time of a start; a kill is always preceded by a wake.
    """

    def __init__(self, limits: SupervisionLimits, now: float) -> None:
        self._limits = limits
        self._pong_at = now
        self._pinged_at: float | None = None
        self._loading = True
        self._woken_at: float | None = None

    def on_pong(self, loading: bool, now: float) -> None:
        self._pong_at, self._loading, self._woken_at = now, loading, None

    def ping_due(self, now: float) -> bool:
        """Return True if the caller must send a ping now."""
        due = self._pinged_at is None or now - self._pinged_at >= PING_S
        if due:
            self._pinged_at = now
        return due

    def extend_limits(self, seconds: float) -> None:
        """Extend all limits by a time in which the supervisor itself was stopped."""
        self._pong_at += seconds
        if self._woken_at is not None:
            self._woken_at += seconds

    def verdict(self, now: float) -> LivenessVerdict:
        limit = self._limits.start_s if self._loading else self._limits.beat_s
        if now - self._pong_at < limit:
            return LivenessVerdict.FINE
        if self._woken_at is None:
            self._woken_at = now
            return LivenessVerdict.WAKE
        if now - self._woken_at < self._limits.beat_s:
            return LivenessVerdict.FINE
        self._woken_at = now
        return LivenessVerdict.KILL


MAX_FORKSERVER_DEATHS = 5
FORKSERVER_PERIOD_S = 60.0


class TreeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Children of a tree, where they log, and how it reports."""

    specs: tuple[ChildSpec, ...]
    argv: tuple[str, ...]
    """Arguments of every actor, before `--instance NAME`."""
    logs: Path
    root: Path
    limits: SupervisionLimits = SupervisionLimits()
    on_failed: Callable[[str], None]
    """Called with the reason why the plane must end."""
    say: Callable[[str], None]
    """Called with a line for the log."""


class Tree:
    """All children of one supervisor, in start order."""

    def __init__(self, options: TreeOptions, forkserver: ForkClient) -> None:
        self._options = options
        self._forkserver = forkserver
        self._deaths: list[float] = []
        self._timer: asyncio.TimerHandle | None = None
        self._log_at: dict[str, int] = {}
        self._ticked_at = 0.0
        self._liveness = ForkserverLiveness(options.limits, time.monotonic())
        self._closing = False
        self.changed = asyncio.Event()
        self.children = {spec.instance: Child(spec, options.limits) for spec in options.specs}

    def start(self) -> None:
        """Start every child and read the reports of the forkserver."""
        asyncio.get_running_loop().add_reader(self._forkserver.fileno(), self._drain)
        now = self._ticked_at = time.monotonic()
        for child in self.children.values():
            self._do(child.start(now))
        self.tick()

    def close(self) -> None:
        """Kill the forkserver, and with it every child that is left."""
        self._closing = True
        if self._timer:
            self._timer.cancel()
        self._close_forkserver()

    def _close_forkserver(self) -> None:
        if self._forkserver.fileno() >= 0:  # one that died and was not replaced is closed
            asyncio.get_running_loop().remove_reader(self._forkserver.fileno())
        self._forkserver.close()

    def child(self, instance: str) -> Child:
        try:
            return self.children[instance]
        except KeyError:
            names = ", ".join(self.children)
            raise NoSuchActor(f"no actor is called {instance!r}; there are: {names}") from None

    def on_beat(self, beat: Heartbeat) -> None:
        child = self.children.get(beat.instance)
        if child is None:
            return
        before = child.state
        child.on_beat(beat, time.monotonic())
        if child.state is not before:
            self._notice()

    def add(self, spec: ChildSpec, before: str = "") -> None:
        """Start a further child. `before`: the instance that it precedes in start order; empty: it is the last."""
        child = Child(spec, self._options.limits)
        later = [*dropwhile(lambda name: name != before, self.children)]
        self.children[spec.instance] = child
        for name in later:
            self.children[name] = self.children.pop(name)
        self._do(child.start(time.monotonic()))

    def kill(self, instance: str, number: int) -> None:
        self._do(self.child(instance).ordered_kill(number, time.monotonic()))

    def restart(self, instance: str, why: str = "restart ordered") -> None:
        """Restart a child in an orderly way; one that is ending starts again already, or is to be gone."""
        child = self.child(instance)
        if child.state is not ChildState.STOPPING:
            self._do(child.restart(time.monotonic(), why))

    async def stop(self, instances: Iterable[str], deadline: float) -> None:
        """Stop these and wait until they are gone, no longer than until the deadline (monotonic).

        One that is forgotten meanwhile, by an order to scale, is gone.
        """
        chosen = [child for name in instances if (child := self.children.get(name))]
        for child in chosen:
            self._do(child.stop(time.monotonic()))
        while any(child.has_process for child in chosen):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self.changed.clear()
            await wait_set(self.changed, left)

    def forget(self, instance: str) -> None:
        """Remove a child; a process that did not end in time gets SIGKILL, since no deadline is watched any more.

        So does one that the forkserver, which was stopped meanwhile, makes only later.
        """
        child = self.children.pop(instance, None)
        if child is not None and child.pid:
            self._end_forgotten(instance, child.pid)

    def _end_forgotten(self, instance: str, pid: int) -> None:
        self._signal(Signal(instance, pid, signal.SIGKILL, "would not end"))

    def tick(self) -> None:
        """Run the state machines; called once a second and at every deadline of a child."""
        now = time.monotonic()
        late = now - self._ticked_at
        self._ticked_at = now
        for child in self.children.values():
            if late > self._options.limits.late_tick_s:
                child.extend_limits(late)
            if child.is_silent(now) and (usage := usage_of(child.pid)) is not None:
                child.observe(usage, now)
            self._do(child.tick(now))
        if late > self._options.limits.late_tick_s:
            self._liveness.extend_limits(late)
        self._check_forkserver(now)
        self._arm(now)

    def ticked_s(self) -> float:
        """Return the seconds since the last pass over the state machines."""
        return time.monotonic() - self._ticked_at

    def _check_forkserver(self, now: float) -> None:
        """Continue a forkserver that is stopped; kill one that hangs, and with it all actors."""
        if self._liveness.ping_due(now):
            self._forkserver.send(wire.Ping())
        verdict = self._liveness.verdict(now)
        if verdict is LivenessVerdict.FINE:
            return
        word = "gets SIGCONT" if verdict is LivenessVerdict.WAKE else "is killed"
        self._options.say(f"the forkserver (pid {self._forkserver.pid}) does not answer and {word}")
        self._forkserver.signal(signal.SIGCONT if verdict is LivenessVerdict.WAKE else signal.SIGKILL)

    def _arm(self, now: float) -> None:
        if self._timer:
            self._timer.cancel()
        due = [when for child in self.children.values() if (when := child.deadline()) is not None]
        wait = min([1.0, *(max(0.0, when - now) for when in due)])
        self._timer = None if self._closing else asyncio.get_running_loop().call_later(wait, self.tick)

    def _do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Spawn(instance):
                    self._spawn(instance)
                case Signal():
                    self._signal(action)
                case GiveUp(instance, reason, critical):
                    self._options.say(f"{instance} failed: {reason}")
                    if critical:
                        self._options.on_failed(f"{instance} cannot be kept running: {reason}")
        self._notice()

    def _notice(self) -> None:
        self.changed.set()

    def _spawn(self, instance: str) -> None:
        log = logs.path_of(self._options.logs, instance)
        self._log_at[instance] = logs.size(log)
        argv = (*self._options.argv, "--instance", instance)
        child = self.children[instance]
        if not self._forkserver.send(wire.Fork(instance, child.spec.module, argv, str(log))):
            self._do(child.fork_failed("the forkserver takes no orders", time.monotonic()))

    def _signal(self, action: Signal) -> None:
        try:
            if action.signal == signal.SIGTERM:
                os.kill(action.pid, signal.SIGCONT)  # one that is stopped would wait for SIGKILL
            os.kill(action.pid, action.signal)
        except ProcessLookupError:
            return  # its exit is about to be reported
        if action.why not in ("stop", "ordered"):
            why = f"{action.why}{self._blocked_by(action)}"
            self._options.say(f"{action.instance} (pid {action.pid}) gets signal {action.signal}: {why}")

    def _blocked_by(self, action: Signal) -> str:
        """Return what blocked the event loop of the process, if it recorded that."""
        stall = stalls.read(layout(str(self._options.root)).run, action.instance, action.pid)
        return f"; its loop is held by {' '.join(stall.what.split())}" if stall else ""

    def _drain(self) -> None:
        if not self._forkserver.reports(self._report):
            self._forkserver_lost()

    def _report(self, report: wire.Report) -> None:
        if isinstance(report, wire.Pong):
            return self._liveness.on_pong(report.loading, time.monotonic())
        child = self.children.get(report.instance)
        if child is None:
            if isinstance(report, wire.Forked):  # ordered before it was forgotten
                self._end_forgotten(report.instance, report.pid)
            return None
        now = time.monotonic()
        match report:
            case wire.Forked(_, pid):
                self._do(child.spawned(pid, now))
            case wire.NotForked(_, reason):
                self._options.say(f"no process for {report.instance}: {reason}")
                self._do(child.fork_failed(reason, now))
            case wire.Exited(instance, pid, status) if pid == child.pid:
                self._exited(child, self._how(instance, status), now)
        self._arm(now)
        return None

    def _exited(self, child: Child, how: ProcessExit, now: float) -> None:
        serving, stopping = child.state in SERVING, child.state is ChildState.STOPPING
        actions = child.exited(how, now)
        if not stopping and child.state is not ChildState.FAILED:
            was = "" if serving else " before it was ready"
            self._options.say(f"{child.spec.instance} ended{was}: {child.reason}; now {child.state}")
        self._do(actions)

    def _how(self, instance: str, status: int) -> ProcessExit:
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            return ProcessExit(signal=-code)
        last = logs.last_line(logs.path_of(self._options.logs, instance), self._log_at[instance]) if code else ""
        return ProcessExit(code=code, reason=last)

    def _forkserver_lost(self) -> None:
        self._close_forkserver()
        for child in self.children.values():
            child.lost_with_forkserver("the forkserver died")
        self._notice()
        if self._closing:
            return
        self._options.say("the forkserver died; all actors start again")
        if self._forkserver_spent():
            self._options.on_failed(
                f"the forkserver died {MAX_FORKSERVER_DEATHS} times in a minute; see logs/forkserver.log"
            )
            return
        try:
            self._forkserver = self.launch(self._options)
        except ForkserverLost as error:
            self._options.on_failed(str(error))
            return
        self._liveness = ForkserverLiveness(self._options.limits, time.monotonic())
        self._restart_all()

    def _restart_all(self) -> None:
        asyncio.get_running_loop().add_reader(self._forkserver.fileno(), self._drain)
        now = time.monotonic()
        for child in self.children.values():
            if child.state is ChildState.WAITING:
                self._do(child.start(now))

    def _forkserver_spent(self) -> bool:
        now = time.monotonic()
        self._deaths = [when for when in self._deaths if now - when < FORKSERVER_PERIOD_S] + [now]
        return len(self._deaths) >= MAX_FORKSERVER_DEATHS

    @staticmethod
    def launch(options: TreeOptions) -> ForkClient:
        return launch(options.specs, options.logs, options.root)


def launch(specs: Iterable[ChildSpec], log_dir: Path, root: Path) -> ForkClient:
    """Start the forkserver for these children."""
    return client.launch([spec.module for spec in specs], logs.path_of(log_dir, "forkserver"), root)
