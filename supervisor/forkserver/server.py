"""The process that actors are forked from: it imports everything once, with one thread, no zmq context and no loop.

It is the parent of all actors: it reaps them and reports how they ended. It dies with the supervisor and they die with
it; kill -9 of it restarts every actor once. Run as `python -m supervisor.forkserver.server FD SUPERVISOR_PID MODULE...`
with modules in the order of their use.
"""

import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

from protocols.process import linux
from supervisor.forkserver import child, free_blocks, wire

AUTHORITY_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Environment variables that name the system's certificate authorities for OpenSSL."""


@contextmanager
def without_system_authorities() -> Generator[None]:
    """Hide the system's certificate authorities during imports.

    aiohttp reads them twice on import, for requests without a CA of their own. Ours all have one, and the reading took
    a tenth of all imports of a plane. Changes the environment for that time: for a process with one thread.
    """
    before = {name: os.environ.get(name) for name in AUTHORITY_VARIABLES}
    os.environ.update(dict.fromkeys(AUTHORITY_VARIABLES, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def settle() -> None:
    """Leave as little as possible for a forked child to write: each page that it writes becomes its own."""
    sys._clear_type_cache()  # a child's look-ups would release the names that ours left in it
    gc.freeze()
    gc.collect()  # nothing is left to collect, but this empties the free lists, whose items lie scattered


class _Forkserver:
    def __init__(self, sock: socket.socket, modules: list[str]) -> None:
        self._socket = sock
        self._todo = deque(modules)
        self._waiting = deque[wire.Fork]()
        self._children: dict[int, str] = {}
        self._wake, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def run(self) -> None:
        """Import everything, then fork until the supervisor closes the socket.

        Pings are answered between two imports. Orders wait for the last one: what an import writes after a fork would
        be shared with that child no more.
        """
        while self._serve(block=not (self._todo or self._waiting)):
            if self._todo:
                self._load(self._todo.popleft())
                if not self._todo:
                    settle()
                    free_blocks.occupy()

    def _load(self, module: str) -> None:
        try:
            with without_system_authorities():
                importlib.import_module(module)
        except BaseException:  # its child will fail in the same way and log it
            traceback.print_exc(limit=-2)

    def _serve(self, block: bool) -> bool:
        ready, _, _ = select.select([self._socket.fileno(), self._wake], [], [], None if block else 0)
        if self._wake in ready:
            os.read(self._wake, 4096)
        if self._socket.fileno() in ready and not self._receive():
            return False
        while self._waiting and not self._todo:
            self._fork(self._waiting.popleft())
        self._reap()
        return True

    def _receive(self) -> bool:
        packet = self._socket.recv(wire.PACKET)
        if not packet:
            return False
        match wire.decode_order.decode(packet):
            case wire.Ping():
                self._say(wire.Pong(loading=bool(self._todo)))
            case order:
                self._waiting.append(order)
        return True

    def _fork(self, order: wire.Fork) -> None:
        settle()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self._say(wire.NotForked(order.instance, f"fork: {error.strerror}"))
            return
        if pid == 0:
            child.run(order, parent, inherited=(self._socket.fileno(), self._wake))
        self._children[pid] = order.instance
        self._say(wire.Forked(order.instance, pid))

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            self._say(wire.Exited(self._children.pop(pid), pid, status))

    def _say(self, report: wire.Report) -> None:
        self._socket.send(wire.encode(report))


def main(argv: list[str]) -> NoReturn:
    descriptor, parent, modules = int(argv[0]), int(argv[1]), argv[2:]
    child.die_with_parent(parent)
    linux.set_name("np-forkserver")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()  # no garbage here, and untouched pages stay shared; children enable it
    sock = socket.socket(fileno=descriptor)
    sock.set_inheritable(False)
    try:
        _Forkserver(sock, modules).run()
    except OSError:
        traceback.print_exc()
    os._exit(0)  # the parent-death signal ends the children


if __name__ == "__main__":
    main(sys.argv[1:])
