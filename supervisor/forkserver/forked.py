"""A forkserver that is forked instead of exec'd, by a process that is a fork of another one: all it would import is
there and shared, so one more node costs neither the time nor the memory of its libraries.

Only for a process with one thread, no loop and no socket of its own yet.
"""

import contextlib
import os
import signal
import socket
from collections.abc import Sequence

from supervisor.errors import ForkserverLost
from supervisor.forkserver import server
from supervisor.forkserver.client import ForkClient

CRASHED = 70


class ForkedProcess:
    """The part of subprocess.Popen that a forkserver's client needs."""

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


def fork(modules: Sequence[str]) -> ForkClient:
    """Raises ForkserverLost."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        ours.close()
        theirs.close()
        raise ForkserverLost(f"cannot start the forkserver: {error}") from None
    if pid == 0:
        try:
            ours.close()
            os.setsid()
            server.main([str(theirs.detach()), str(parent), *modules])
        finally:
            os._exit(CRASHED)
    theirs.close()
    return ForkClient(ForkedProcess(pid), ours)
