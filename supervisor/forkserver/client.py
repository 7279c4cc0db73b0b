"""The supervisor's end of the forkserver: start it, order forks, read reports.

A supervisor forks its forkserver while it has one thread, no loop and no socket (`fork`): the two share the interpreter
and what is loaded, so neither costs its time and memory twice. In its place after a death it execs one (`launch`).
"""

import contextlib
import importlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from supervisor.base.errors import ForkserverLost
from supervisor.forkserver import wire

PRELOADED = ("asyncio", "ssl", "encodings.idna", "grpc._utilities")
"""Modules that most actors need, imported first; the last two by libraries only when they connect or serve."""

SHARED = ("protocols.bus", "protocols.messages.runtime")
"""Modules that a supervisor needs as well, loaded before it forks its forkserver."""

SERVER = "supervisor.forkserver.server"

NOT_FOR_CHILDREN = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")

PACKAGE_ROOT = str(Path(__file__).resolve().parent.parent.parent)


class Process(Protocol):
    """The forkserver's process; subprocess.Popen is one."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self) -> int | None: ...
    def send_signal(self, number: int, /) -> None: ...
    def kill(self) -> None: ...


class ForkClient:
    """One forkserver process."""

    def __init__(self, process: Process, sock: socket.socket) -> None:
        self._process = process
        self._socket = sock

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, order: wire.Order) -> bool:
        """Send an order; return False if the forkserver is gone or its queue is full."""
        try:
            self._socket.send(wire.encode(order))
        except OSError:
            return False
        return True

    def reports(self, on_report: Callable[[wire.Report], None]) -> bool:
        """Pass all reports that have arrived to `on_report`; return False once the forkserver has closed the socket."""
        while True:
            try:
                packet = self._socket.recv(wire.PACKET)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not packet:
                return False
            on_report(wire.decode_report.decode(packet))

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def close(self) -> None:
        """Kill the forkserver, and by the parent-death signal its children."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


def launch(modules: Sequence[str], log: Path, cwd: Path) -> ForkClient:
    """Start a new interpreter and return while it imports; orders may be sent at once. Raises ForkserverLost."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    wanted = [*PRELOADED, *dict.fromkeys(modules)]
    command = [sys.executable, "-P", "-m", SERVER, str(theirs.fileno()), str(os.getpid()), *wanted]
    try:
        with theirs, open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(),),
                env=environment(),
                cwd=cwd,
                start_new_session=True,
            )
    except OSError as error:
        ours.close()
        raise ForkserverLost(f"cannot start the forkserver: {error}") from None
    return ForkClient(process, ours)


def environment() -> dict[str, str]:
    """Return the environment of a child: the package is importable, whatever the directory."""
    kept = {name: value for name, value in os.environ.items() if name not in NOT_FOR_CHILDREN}
    given = [os.path.abspath(path) for path in kept.get("PYTHONPATH", "").split(os.pathsep) if path]
    kept.setdefault("GRPC_VERBOSITY", "NONE")  # our errors name a failure once, gRPC logs every attempt
    kept["PYTHONPATH"] = os.pathsep.join([PACKAGE_ROOT, *given])
    return kept


CRASHED = 70


class ForkedProcess:
    """A forked child with the interface of subprocess.Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._ended: int | None = None

    def poll(self) -> int | None:
        return self._reap(os.WNOHANG)

    def wait(self) -> int | None:
        return self._reap(0)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _reap(self, flags: int) -> int | None:
        if self._ended is None:
            try:
                pid, status = os.waitpid(self.pid, flags)
            except ChildProcessError:
                pid, status = self.pid, 0
            self._ended = os.waitstatus_to_exitcode(status) if pid else None
        return self._ended


def fork(modules: Sequence[str], log: Path | None = None, cwd: Path | None = None) -> ForkClient:
    """Fork a forkserver, from a process with one thread, no loop and no socket yet. Raises ForkserverLost.

    With `log` and `cwd` it is independent of this process as one of `launch`. Without, it writes where this one does,
    which has opened nothing.
    """
    from supervisor.forkserver import child, server  # not loaded by what only needs `environment`

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    parent = os.getpid()
    for module in SHARED:
        importlib.import_module(module)
    child.flush()
    server.settle()
    try:
        pid = os.fork()
    except OSError as error:
        ours.close()
        theirs.close()
        raise ForkserverLost(f"cannot start the forkserver: {error}") from None
    if pid == 0:
        try:
            os.setsid()
            if log and cwd:
                _part(theirs.fileno(), log, cwd)
            else:
                ours.close()
            server.main([str(theirs.detach()), str(parent), *PRELOADED, *dict.fromkeys(modules)])
        finally:
            os._exit(CRASHED)
    theirs.close()
    return ForkClient(ForkedProcess(pid), ours)


def _part(kept: int, log: Path, cwd: Path) -> None:
    """Close all descriptors but one: a lock, a port and a pipe are held until the last process has closed them."""
    from supervisor.forkserver.child import write_to

    os.chdir(cwd)
    write_to(str(log))
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
    wanted = environment()
    os.environ.clear()
    os.environ.update(wanted)
