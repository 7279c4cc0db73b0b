"""Runtime's end of the connection to one shim: typed messages in, requests out."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from actors.runtime.model.errors import InvalidRequest
from actors.runtime.shim import channel
from protocols.process.files import UNREADABLE, read_state

PACKET = 256 * 1024


class Ready(msgspec.Struct, frozen=True, tag_field="kind", tag="ready"):
    """The shim waits for go."""


class Started(msgspec.Struct, frozen=True, tag_field="kind", tag="started"):
    """Message, and content of started.json. `pid` is 0 until the container's process runs."""

    shim: int
    pid: int
    started_at: int
    ticks: int = 0
    boot: str = ""


class Exit(msgspec.Struct, frozen=True, tag_field="kind", tag="exit"):
    """Message, and content of exit.json. `message` is the reason of a failed start, else empty."""

    code: int
    signal: int
    finished_at: int
    message: str = ""
    oom_killed: bool = msgspec.field(name="starved", default=False)


class Reply(msgspec.Struct, frozen=True, tag_field="kind", tag="reply"):
    """Message: answer to a request; an empty error is success."""

    id: int
    error: str


class ExecExit(msgspec.Struct, frozen=True, tag_field="kind", tag="exec_exit"):
    """Message: a command beside the container's process has ended."""

    id: int
    code: int


_File = TypeVar("_File", Started, Exit)

Message = Ready | Started | Exit | Reply | ExecExit
_DECODER: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


class ShimConnection:
    """Calls on_message for each message, then on_gone once when the shim has closed its end.

    on_message owns the descriptors of a message.
    """

    def __init__(
        self,
        connection: socket.socket,
        on_message: Callable[[Message, tuple[int, ...]], None],
        on_gone: Callable[[], None],
    ) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._on_message = on_message
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connection.fileno(), self._on_readable)
        self.pid = 0
        """Pid of the shim; 0 until its first message."""
        self.main = 0
        """Pid of the container's first process; 0 until it runs."""

    def send(self, op: str, descriptors: tuple[int, ...] = (), **fields: Any) -> bool:
        """Send a request; False if the shim is gone or stuck. Raises InvalidRequest if it exceeds a packet."""
        if self._connection.fileno() < 0:
            return False
        data = msgspec.json.encode({"op": op, **fields})
        try:
            if len(data) > PACKET:
                raise OSError(errno.EMSGSIZE, "")
            socket.send_fds(self._connection, [data], list(descriptors))
        except OSError as error:
            if error.errno == errno.EMSGSIZE:  # also of a kernel with a smaller buffer
                raise InvalidRequest(f"the command is {len(data)} bytes long, which is too much; use a file") from None
            return False
        return True

    def close(self) -> None:
        if self._connection.fileno() >= 0:
            self._loop.remove_reader(self._connection.fileno())
            self._connection.close()

    def _on_readable(self) -> None:
        while self._connection.fileno() >= 0:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._connection, PACKET, 1, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            if not data:
                self.close()
                self._on_gone()
                return
            self._take(data, tuple(descriptors))

    def _take(self, data: bytes, descriptors: tuple[int, ...]) -> None:
        try:
            message = _DECODER.decode(data)
        except UNREADABLE:
            close_all(descriptors)
            return
        if isinstance(message, Started):
            self.pid, self.main = message.shim, message.pid
        self._on_message(message, descriptors)


def close_all(descriptors: tuple[int, ...]) -> None:
    """Close descriptors that a shim has received."""
    for descriptor in descriptors:
        os.close(descriptor)


def connect(directory: Path) -> socket.socket | None:
    """Connect to the shim of a directory, whose path may exceed a socket path's limit, and greet it; None if gone."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setblocking(False)
    try:
        descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            connection.connect(f"/proc/self/fd/{descriptor}/{channel.SOCKET_FILE}")
            connection.send(msgspec.json.encode({"op": "adopt"}))
        finally:
            os.close(descriptor)
    except OSError:
        connection.close()
        return None
    return connection


def read_started(directory: Path) -> Started | None:
    """Read the shim's record of a start; None if the container has not started."""
    return _read(directory / channel.STARTED_FILE, Started)


def read_exit(directory: Path) -> Exit | None:
    """Read the shim's record of an end; None if the container has not ended."""
    return _read(directory / channel.EXIT_FILE, Exit)


def _read(path: Path, kind: type[_File]) -> _File | None:
    try:
        return msgspec.json.decode(read_state(path), type=kind)
    except (OSError, *UNREADABLE):
        return None
