"""Count the steps of a test in the actors of its node, or kill at one of them: what runs beside a marked test.

The actor of the step stops itself when it begins (SIGSTOP), the victim gets SIGKILL, and then the actor goes on. So the
victim is dead before anything of the step has happened.
"""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Iterable, Sequence

import pytest

from protocols.bus import BusError
from protocols.messages.supervisor import ActorStatus
from protocols.messages.trace import STEPS, Step, StepList, StepOrder
from protocols.trace import instances
from pytest_nodeplane.node import Node
from pytest_nodeplane.plane import Plane
from pytest_nodeplane.steps import Found, Kill, Program
from pytest_nodeplane.waiting import until
from supervisor.base.errors import UsageError
from supervisor.client.connection import Asking, ask
from supervisor.tree.states import SERVING, usage_of

POLL_S = 0.002
"""Pause between looks at the actor; it is stopped for so long at most, and for as long as a kill takes."""
TIMEOUT_S = 3.0


class Counting:
    """The first run: which steps it has, and which programs run when it ends."""

    def __init__(self) -> None:
        self.found: list[Found] = []
        self.programs: list[Program] = []
        self.actors: dict[str, tuple[str, ...]] = {}
        """By node, the first node's first."""
        self._nodes: Sequence[Node] = ()
        self._planes: dict[str, Plane] = {}

    def begin(self, nodes: Sequence[Node]) -> None:
        """Count the steps of all nodes of the plane. `nodes` are those of the test; fixtures append to it."""
        self._nodes, self._planes = nodes, planes_of(nodes[0].plane)
        for plane in self._planes.values():
            _order(plane, StepOrder(count=True))

    def failed(self, error: BaseException) -> None:
        """Count no longer; the fixture's end of the node needs nothing else."""

    def passed(self) -> None:
        """Read the steps when the test's own function has ended, before its fixtures end."""
        found = [
            Found(name, step, node)
            for node, plane in self._planes.items()
            for name, steps in _order(plane, StepOrder(count=False))
            for step in steps
        ]
        self.found = sorted(found, key=lambda each: each.step.began_ns)
        self.actors = {node: tuple(plane.actors()) for node, plane in self._planes.items()}
        self.programs = [
            Program(position, process.name, node.name if len(self._planes) > 1 else "")
            for node in self._nodes
            for position, process in enumerate(node.processes)
            if not process.has_ended
        ]


class Killing:
    """A run with one kill. `reached` is False while its step has not begun."""

    def __init__(self, kill: Kill) -> None:
        self.kill = kill
        self.reached = False
        self._nodes: Sequence[Node] = ()
        self._planes: dict[str, Plane] = {}
        self._error: Exception | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, nodes: Sequence[Node]) -> None:
        """Raises UsageError if no actor has the victim's name, or the step's actor is not there."""
        self._nodes, self._planes = nodes, planes_of(nodes[0].plane)
        pid = self._actor(self.kill.at.node, self.kill.at.actor).pid
        if self.kill.program < 0:
            self._actor(self.kill.node, self.kill.victim)
        self._order(StepOrder(count=True, stop_at=self.kill.at.step))
        self._thread = threading.Thread(target=self._watch, args=(pid,), name="kill at a step", daemon=True)
        self._thread.start()

    def _actor(self, node: str, name: str) -> ActorStatus:
        actors = self._planes[node].actors() if node in self._planes else {}
        if name not in actors:
            there = f" on node {node}" if node else ""
            raise UsageError(f"no actor{there} is called {name!r}; there are {', '.join(sorted(actors)) or 'none'}")
        return actors[name]

    def _order(self, order: StepOrder) -> None:
        _order(self._planes[self.kill.at.node], order, [self.kill.at.actor])

    def passed(self) -> None:
        """Skip a run without its step, which shows nothing. Raises what made the kill fail."""
        self._end()
        if not self.reached:
            pytest.skip(f"nothing was killed: this run had no {self.kill.at.text} of {self.kill.at.actor}")

    def failed(self, error: BaseException) -> None:
        """Put the kill before the text of the error."""
        self._end()
        if not isinstance(error, Exception) or not self.reached:
            return
        text = f"does not survive: {self.kill.text}"
        first = error.args[0] if error.args else ""
        if isinstance(first, str):
            error.args = (f"{text}: {first}", *error.args[1:])
        else:
            error.add_note(text)

    def _end(self) -> None:
        """Wait for the end of a kill that has begun; none begins after this. Raises what made the kill fail."""
        if self._thread is None:
            return
        if not self.reached:
            self._order(StepOrder(count=False))
        self._ended.set()
        self._thread.join()
        self._thread = None
        if self._error:
            raise self._error

    def _watch(self, pid: int) -> None:
        try:
            while not _is_stopped(pid):
                if self._ended.wait(POLL_S) and not _is_stopped(pid):
                    return
            self.reached = True
            self._kill(pid)
        except Exception as error:
            self._error = error

    def _kill(self, stopped: int) -> None:
        kill = self.kill
        started = [process for node in self._nodes if kill.node in ("", node.name) for process in node.processes]
        if kill.program < 0:
            with self._nodes[0].plane.outage:
                _kill_actor(self._planes[kill.node], kill.victim, stopped)
        elif kill.program < len(started):
            started[kill.program].crash(lambda: os.kill(stopped, signal.SIGCONT))
        else:  # the test has not started it yet
            self.reached = False
            os.kill(stopped, signal.SIGCONT)


def planes_of(plane: Plane) -> dict[str, Plane]:
    """Return the nodes of a plane by their names, when they serve; the only one of a plane is called ""."""
    for other in plane.further:
        other.wait_started()
    nodes = [plane, *plane.further]
    return {node.environment["NODE_NAME"]: node for node in nodes} if len(nodes) > 1 else {"": plane}


def _kill_actor(plane: Plane, victim: str, stopped: int) -> None:
    """Kill an actor, let the stopped one go on, and wait until the victim's successor serves."""
    try:
        pids = {actor.instance: actor.pid for actor in ask(plane.layout, Asking.status).actors}
        before = pids[victim]
        ask(plane.layout, lambda asking: asking.kill(victim, signal.SIGKILL))
    finally:
        with contextlib.suppress(ProcessLookupError):  # it was the victim
            os.kill(stopped, signal.SIGCONT)

    def restarted() -> bool:
        actors = {actor.instance: actor for actor in ask(plane.layout, Asking.status).actors}
        return actors[victim].pid not in (0, before) and actors[victim].state in SERVING

    until(f"{victim} serves again", restarted)


def _is_stopped(pid: int) -> bool:
    usage = usage_of(pid)
    return usage is not None and usage.stopped


def _order(plane: Plane, order: StepOrder, names: Iterable[str] = ()) -> list[tuple[str, tuple[Step, ...]]]:
    """Send an order to actors, by default to all of a node; return the steps of those that answer."""

    async def question(asking: Asking) -> list[tuple[str, tuple[Step, ...]]]:
        async def one(name: str) -> tuple[str, tuple[Step, ...]]:
            try:
                return name, (await asking.bus.call(name, STEPS, order, StepList, timeout=TIMEOUT_S)).steps
            except BusError:  # a supervisor, which has no steps, or an actor that is down
                return name, ()

        return await asyncio.gather(*map(one, list(names) or instances(asking.layout.run)))

    return plane.ask(question)
