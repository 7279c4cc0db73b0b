"""Launcher: a small process that forks shims. The runtime starts it once, as a fresh interpreter with few modules.

The runtime itself must not fork, since gRPC has threads; a fork of this process costs about a megabyte and two
milliseconds. The launcher ends when the runtime's end of its socket closes; its shims live on.
"""

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from typing import NoReturn

from actors.runtime.shim import channel, holder, system
from actors.runtime.shim.parent import Shim
from protocols.process import linux

CONTROL = 3
"""Descriptor of the socket to the runtime, in this process."""


class _Launcher:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._shims: set[int] = set()
        self._wakeup, self._wake = socket.socketpair()
        self._wakeup.setblocking(False)
        self._wake.setblocking(False)

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._wakeup.fileno():
                    self._on_children()
                elif not self._on_request():
                    return

    def _on_request(self) -> bool:
        """Fork a shim or a holder with the received connection; False when the runtime is gone."""
        message, descriptors = channel.receive(self._control)
        if message is None:
            return False
        if len(descriptors) == 1 and "holder" in message:
            self._hold(message["holder"], descriptors[0])
        elif len(descriptors) == 1:
            pid = os.fork()
            if pid == 0:
                _be_shim(message["directory"], descriptors[0])
            self._shims.add(pid)
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _hold(self, request: channel.Message, descriptor: int) -> None:
        try:
            self._shims.add(holder.start(request, descriptor))
        except OSError as error:
            with socket.socket(fileno=os.dup(descriptor)) as runtime:
                channel.send(
                    runtime, {"kind": "holding", "pid": 0, "error": f"namespaces of the pod: {error.strerror}"}
                )

    def _on_children(self) -> None:
        """Reap shims, and kill the children of killed ones, which are reparented to this process."""
        with contextlib.suppress(BlockingIOError):
            self._wakeup.recv(4096)
        system.reap(lambda pid, _: self._shims.discard(pid))
        for pid in system.children():
            if pid not in self._shims:
                system.kill(pid, signal.SIGKILL)


def _be_shim(directory: str, connection: int) -> NoReturn:
    code = 1
    try:
        os.chdir(directory)
        _detach(connection)
        Shim(socket.socket(fileno=CONTROL)).run()
        code = 0
    except BaseException:
        import traceback  # 0.3 MB, for shims that fail only

        with open(channel.TRACE_FILE, "w") as file:
            traceback.print_exc(file=file)
    finally:
        os._exit(code)


def _detach(connection: int) -> None:
    """Detach the shim from launcher, runtime and supervisor: session, descriptors, signals."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    os.dup2(connection, CONTROL, inheritable=False)
    os.closerange(CONTROL + 1, 4096)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    linux.set_name("nodeplane-shim")
    linux.adopt_descendants()


def main(control: int) -> None:
    """Run the launcher on descriptor `control`, the socket to the runtime."""
    os.dup2(control, CONTROL, inheritable=False)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(CONTROL):
        os.dup2(null, number)
    os.closerange(CONTROL + 1, 4096)
    linux.set_name("nodeplane-launch")
    linux.adopt_descendants()
    gc.disable()
    gc.freeze()
    with contextlib.suppress(KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is the supervisor's
        _Launcher(socket.socket(fileno=CONTROL)).run()
    sys.exit(0)
