"""Connection between a shim and the runtime: packets, descriptors, the shim's socket and its record files.

A packet of the SOCK_SEQPACKET unix socket is one JSON object.
From the runtime: `{"op": "go" | "adopt" | "signal" | "kill" | "reopen" | "exec" | "kill_exec" | "attach" | "detach" |
"close_stdin", ...}`; exec and attach come with descriptors.
From the shim: `{"kind": "ready" | "started" | "failed" | "exit" | "reply" | "exec_exit", ...}`.
"""

import contextlib
import errno
import json
import os
import select
import socket
from typing import Any

PACKET = 256 * 1024
"""Largest message either side reads; the kernel's send buffer refuses larger ones before."""

Message = dict[str, Any]


def receive(connection: socket.socket) -> tuple[Message | None, list[int]]:
    """The next message and the descriptors sent with it; (None, []) when the peer is gone or talks nonsense."""
    try:
        data, descriptors, _, _ = socket.recv_fds(connection, PACKET, 3, socket.MSG_CMSG_CLOEXEC)
        message = json.loads(data) if data else None
    except (OSError, ValueError, RecursionError):
        return None, []
    return (message if isinstance(message, dict) else None), descriptors


def send(connection: socket.socket | None, message: Message, descriptors: tuple[int, ...] = ()) -> None:
    """Never waits: a runtime that is gone, or does not read, learns the same from the files when it adopts."""
    if connection is not None:
        with contextlib.suppress(OSError):
            data = json.dumps(message).encode()
            if descriptors:
                socket.send_fds(connection, [data], list(descriptors), socket.MSG_DONTWAIT)
            else:
                connection.send(data, socket.MSG_DONTWAIT)


SPEC_FILE = "spec.json"
"""What to run; written by the runtime before it orders the start."""
STARTED_FILE = "started.json"
"""Written before the container's process exists (`pid` 0) and again once it runs."""
EXIT_FILE = "exit.json"
"""Exit code, signal and time: on disk before anyone is told."""
SOCKET_FILE = "shim.sock"
"""Where a later runtime connects. While a shim lives, a connection to it stays open."""
TRACE_FILE = "shim.err"
"""Traceback of a shim that failed; there is none unless it has a fault."""

Record = dict[str, Any]


def read_record(name: str) -> Record:
    with open(name, "rb") as file:
        record: Record = json.load(file)
        return record


def write_record(name: str, record: Record, durable: bool) -> None:
    """Replace the file; `durable` also survives a loss of power. Raises OSError and leaves the old file."""
    temporary = f".{name}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        data = json.dumps(record).encode()
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(temporary, name)
    if durable:
        _sync_directory()


def _sync_directory() -> None:
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


GREETING = "adopt"
"""What a runtime says first."""

_BACKLOG = 128
"""A runtime that finds no room here takes the shim for dead."""
_STRANGERS = 8


class Door:
    def __init__(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ready = select.epoll()
        self._strangers: dict[int, socket.socket] = {}

    def open(self) -> None:
        old_mask = os.umask(0o177)
        self._listener.bind(SOCKET_FILE)
        os.umask(old_mask)
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        self._ready.register(self._listener, select.EPOLLIN)

    def fileno(self) -> int:
        """Readable when runtime() has something to look at."""
        return self._ready.fileno()

    def runtime(self) -> socket.socket | None:
        """A connection that has just greeted."""
        for descriptor, _ in self._ready.poll(0):
            if descriptor == self._listener.fileno():
                self._let_in()
            elif descriptor in self._strangers and _greets(connection := self._dismiss(descriptor)):
                return connection
        return None

    def _let_in(self) -> None:
        """One too many: the one that has been silent longest has to go."""
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            if len(self._strangers) == _STRANGERS:
                self._dismiss(next(iter(self._strangers))).close()
            self._strangers[connection.fileno()] = connection
            self._ready.register(connection, select.EPOLLIN)

    def _dismiss(self, descriptor: int) -> socket.socket:
        self._ready.unregister(descriptor)
        return self._strangers.pop(descriptor)


def _greets(connection: socket.socket) -> bool:
    """Closes one that does not."""
    message, descriptors = receive(connection)
    for descriptor in descriptors:
        os.close(descriptor)
    if message is not None and message.get("op") == GREETING:
        return True
    connection.close()
    return False
