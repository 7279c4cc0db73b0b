"""Connection between a shim and the runtime: packets, descriptors, the shim's socket and its record files.

A packet of the SOCK_SEQPACKET unix socket is one JSON object.
From the runtime: `{"op": "go" | "adopt" | "signal" | "kill" | "reopen" | "exec" | "kill_exec" | "attach" | "detach" |
"close_stdin" | "cgroups", ...}`; exec and attach come with descriptors.
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
"""Largest message in bytes. The kernel's send buffer rejects most larger ones before they get here."""

Message = dict[str, Any]


def receive(connection: socket.socket) -> tuple[Message | None, list[int]]:
    """Return the next message and its descriptors; (None, []) when the peer is gone or sent something invalid."""
    try:
        data, descriptors, _, _ = socket.recv_fds(connection, PACKET, 3, socket.MSG_CMSG_CLOEXEC)
        message = json.loads(data) if data else None
    except (OSError, ValueError, RecursionError):
        return None, []
    return (message if isinstance(message, dict) else None), descriptors


def send(connection: socket.socket | None, message: Message, descriptors: tuple[int, ...] = ()) -> bool:
    """Send without waiting; return False if the runtime does not read.

    One that is gone gets the same from the files when it adopts.
    """
    if connection is not None:
        data = json.dumps(message).encode()
        try:
            if descriptors:
                socket.send_fds(connection, [data], list(descriptors), socket.MSG_DONTWAIT)
            else:
                connection.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            pass
    return True


SPEC_FILE = "spec.json"
"""Spec of the container; written by the runtime before it requests the start."""
STARTED_FILE = "started.json"
"""Written before the container's process exists (`pid` 0) and again once it runs."""
EXIT_FILE = "exit.json"
"""Exit code, signal and time; on disk before the exit is reported."""
SOCKET_FILE = "shim.sock"
"""Socket for a later runtime."""
TRACE_FILE = "shim.err"
"""Traceback of a shim that crashed."""

Record = dict[str, Any]


def read_record(name: str) -> Record:
    """Read a record file. Raises OSError, and ValueError for a torn one."""
    with open(name, "rb") as file:
        record: Record = json.load(file)
        return record


def write_record(name: str, record: Record, durable: bool) -> None:
    """Replace the file; with `durable`, sync it too. On OSError the old file stays."""
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
"""First message of a runtime."""

_BACKLOG = 128
"""A runtime that cannot connect because the backlog is full takes the shim for dead."""
_MOST_UNIDENTIFIED = 8


class RuntimeListener:
    """Accept connections on the socket file; one becomes the runtime's with its first message, the greeting.

    Connections that have not greeted are few at most and never affect the current runtime.
    """

    def __init__(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ready = select.epoll()
        self._unidentified: dict[int, socket.socket] = {}

    def open(self) -> None:
        old_mask = os.umask(0o177)
        self._listener.bind(SOCKET_FILE)
        os.umask(old_mask)
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        self._ready.register(self._listener, select.EPOLLIN)

    def fileno(self) -> int:
        """Return an epoll descriptor that is readable when runtime() has something to accept or read."""
        return self._ready.fileno()

    def runtime(self) -> socket.socket | None:
        """Return a connection that has just greeted, if any."""
        for descriptor, _ in self._ready.poll(0):
            if descriptor == self._listener.fileno():
                self._accept()
            elif descriptor in self._unidentified and _greets(connection := self._take_out(descriptor)):
                return connection
        return None

    def _accept(self) -> None:
        """Accept a connection; above the limit, close the one that has been silent longest."""
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            if len(self._unidentified) == _MOST_UNIDENTIFIED:
                self._take_out(next(iter(self._unidentified))).close()
            self._unidentified[connection.fileno()] = connection
            self._ready.register(connection, select.EPOLLIN)

    def _take_out(self, descriptor: int) -> socket.socket:
        self._ready.unregister(descriptor)
        return self._unidentified.pop(descriptor)


def _greets(connection: socket.socket) -> bool:
    """Read the first message; close the connection if it is not the greeting."""
    message, descriptors = receive(connection)
    for descriptor in descriptors:
        os.close(descriptor)
    if message is not None and message.get("op") == GREETING:
        return True
    connection.close()
    return False
