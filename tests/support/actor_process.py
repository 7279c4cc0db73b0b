"""Start actors as the supervisor does: forked from a process that has loaded their code.

An interpreter of its own for each would import for up to 0.7 s of a processor, and the tests start hundreds of them.
One such process serves all tests of a session, whatever they start.
"""

import atexit
import contextlib
import functools
import os
import select
import signal
import subprocess
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from supervisor.base.groups import PlaneShape, children
from supervisor.forkserver import wire
from supervisor.forkserver.client import ForkClient, launch

REPOSITORY = Path(__file__).resolve().parents[2]
COMMANDS = "tests.support.command_process"
MODULES = (*(spec.module for spec in children(PlaneShape())), COMMANDS)
FORKED_S = 60.0
"""Longest time to load an actor's code and fork it."""


class Process(Protocol):
    """An actor, or subprocess.Popen."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int, /) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class ActorProcess:
    """An actor's process, with the interface of subprocess.Popen; its forkserver reaps it."""

    def __init__(self, instance: str, pid: int) -> None:
        self.args, self.pid = instance, pid
        self.returncode: int | None = None
        self._ended = threading.Event()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int, /) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def ended(self, code: int) -> None:
        """Note the end, as its forkserver reported it."""
        self.returncode = code
        self._ended.set()


class Forkserver:
    """The parent of all processes. Its own parent is a thread that lasts: it ends with that thread."""

    def __init__(self) -> None:
        self._launched: Future[ForkClient] = Future()
        self._forked: Future[ActorProcess] = Future()
        self._processes: dict[int, ActorProcess] = {}
        self._one_at_a_time = threading.Lock()
        threading.Thread(target=self._run, daemon=True, name="forkserver").start()

    def start(self, instance: str, module: str, arguments: tuple[str, ...], log: Path) -> ActorProcess:
        """Run the module's main() in a new process. Any module may be named; those of MODULES are loaded already."""
        order = wire.Fork(instance=instance, module=module, argv=arguments, log=str(log))
        with self._one_at_a_time:
            self._forked = Future()
            assert self._launched.result(FORKED_S).send(order), "the forkserver of the tests is gone"
            return self._forked.result(FORKED_S)

    def _run(self) -> None:
        client = launch(MODULES, Path(os.devnull), REPOSITORY)
        atexit.register(client.close)
        self._launched.set_result(client)
        while client.reports(self._take):
            select.select([client], [], [])
        for process in self._processes.values():
            process.ended(-signal.SIGKILL)

    def _take(self, report: wire.Report) -> None:
        match report:
            case wire.Forked(instance, pid):
                process = self._processes[pid] = ActorProcess(instance, pid)
                self._forked.set_result(process)
            case wire.NotForked(instance, reason):
                self._forked.set_exception(AssertionError(f"{instance}: {reason}"))
            case wire.Exited(_, pid, status):
                self._processes.pop(pid).ended(os.waitstatus_to_exitcode(status))


@functools.cache
def forkserver() -> Forkserver:
    """Return the one of this process."""
    return Forkserver()


def start_actor(instance: str, settings: Path, log: Path) -> ActorProcess:
    """Start `store`, `apiserver-1` ...; it writes to the end of `log`."""
    arguments = ("--settings", str(settings), "--instance", instance)
    return forkserver().start(instance, f"actors.{instance.partition('-')[0]}.actor", arguments, log)
