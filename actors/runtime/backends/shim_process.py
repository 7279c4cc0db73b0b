"""Processes of one container, reached through its shim."""

import asyncio
import contextlib
import itertools
import os
import socket
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TypeVar

from actors.runtime.backends.shim_connection import (
    ExecExit,
    Exit,
    Message,
    Ready,
    Reply,
    ShimConnection,
    Started,
    close_all,
    read_exit,
    read_started,
)
from actors.runtime.model.containers import Container, ContainerState, ExecResult
from actors.runtime.model.errors import ExecFailed, ExecTimedOut, LauncherGone
from actors.runtime.shim import channel
from actors.runtime.state.lifecycle import Lifecycle

OUTPUT_CAP = 16 * 1024 * 1024 - 64 * 1024
"""Bytes retained of both streams together, so that the reply fits into one gRPC message; the rest is dropped."""

_CHUNK = 64 * 1024


class Capture:
    """Capture of a command's output. `ends` are the command's descriptors: an empty stdin and two pipes."""

    def __init__(self) -> None:
        self._left = OUTPUT_CAP
        self._outputs: dict[int, bytearray] = {}
        self._loop = asyncio.get_running_loop()
        self._closed = self._ends_closed = False
        ends = [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
        self.ends = (os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), ends[0][1], ends[1][1])
        self._read_ends = (ends[0][0], ends[1][0])
        for descriptor in self._read_ends:
            os.set_blocking(descriptor, False)
            self._outputs[descriptor] = bytearray()
            self._loop.add_reader(descriptor, self._read, descriptor)

    def close_child_ends(self) -> None:
        """Close the ends, which the command has inherited."""
        if not self._ends_closed:
            self._ends_closed = True
            for descriptor in self.ends:
                os.close(descriptor)

    def take(self) -> tuple[bytes, bytes]:
        """Return all output after the command has ended, without waiting for other holders of its pipes."""
        for descriptor in self._read_ends:
            while self._read(descriptor):
                pass
        return bytes(self._outputs[self._read_ends[0]]), bytes(self._outputs[self._read_ends[1]])

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.close_child_ends()
            for descriptor in self._read_ends:
                self._loop.remove_reader(descriptor)
                os.close(descriptor)

    def _read(self, descriptor: int) -> bool:
        """Read one chunk; False if there is none now or at the end."""
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(descriptor, _CHUNK)
            if not data:
                self._loop.remove_reader(descriptor)
        kept = data[: self._left]
        self._left -= len(kept)
        self._outputs[descriptor] += kept
        return bool(data)


REPLY_DEADLINE_S = 10.0
_ENDING = "the container is ending"

_T = TypeVar("_T")


class ShimProcess:
    """Processes of one container, controlled through its shim.

    Reports to the lifecycle in the loop step that reads a message, so no waiter runs between STARTED and STOPPED.
    """

    def __init__(
        self,
        container: Container,
        connection: socket.socket,
        directory: Path,
        lifecycle: Lifecycle,
        on_lost: Callable[[Container, Started], None],
    ) -> None:
        self._container = container
        self._directory = directory
        self._lifecycle = lifecycle
        self._on_lost = on_lost
        self._numbers = itertools.count(1)
        self._replies: dict[int, asyncio.Future[str]] = {}
        self._received: dict[int, tuple[int, ...]] = {}
        """Descriptors that came with a reply, until the caller takes them."""
        self._execs: dict[int, asyncio.Future[int]] = {}
        self.startup: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the container runs or has failed to start; LauncherGone if the shim ended before."""
        self.shim = ShimConnection(connection, self._on_message, self._on_gone)

    async def call(self, op: str, descriptors: tuple[int, ...] = (), number: int = 0, **fields: object) -> str:
        """Send a request and wait for the reply; return the error text, empty on success."""
        number = number or next(self._numbers)
        reply: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._replies[number] = reply
        try:
            if not self.shim.send(op, descriptors, id=number, **fields):
                return _ENDING
            async with asyncio.timeout(REPLY_DEADLINE_S):
                return await reply
        except TimeoutError:
            return "the container's shim does not answer"
        finally:
            del self._replies[number]

    async def exec_sync(self, command: list[str], timeout: float) -> ExecResult:
        """Run a command; cancellation kills it. Raises ExecFailed, ExecTimedOut."""
        capture = Capture()
        try:
            async with self.start_exec(command, capture.ends) as ended:
                capture.close_child_ends()
                async with asyncio.timeout(timeout or None):
                    code = await ended
                return ExecResult(*capture.take(), exit_code=code)
        except TimeoutError:
            raise ExecTimedOut(f"timeout {timeout:g}s exceeded by command {command[0]!r}") from None
        finally:
            capture.close()

    @contextlib.asynccontextmanager
    async def start_exec(
        self, command: list[str], ends: tuple[int, int, int], terminal: bool = False
    ) -> AsyncGenerator["asyncio.Future[int]", None]:
        """Run a command on these descriptors and yield the future of its exit code; leaving the context kills it.

        Raises ExecFailed.
        """
        number = next(self._numbers)
        ended = self._execs[number] = asyncio.get_running_loop().create_future()
        try:
            if error := await self.call("exec", ends, number, argv=command, terminal=terminal):
                raise ExecFailed(error)
            yield ended
        finally:
            if not ended.done() or ended.cancelled():
                self.shim.send("kill_exec", id=number)
            del self._execs[number]

    @contextlib.asynccontextmanager
    async def attach(self, outputs: tuple[int, int]) -> AsyncGenerator[int, None]:
        """Copy the container's output to `outputs`.

        Yield the descriptor of its input for the caller to close, or -1. Raises ExecFailed.
        """
        number = next(self._numbers)
        self._received[number] = ()
        try:
            if error := await self.call("attach", outputs, number):
                raise ExecFailed(error)
            received, self._received[number] = self._received[number], ()
            yield next(iter(received), -1)
        finally:
            close_all(self._received.pop(number))
            self.shim.send("detach", id=number)

    def close_input(self) -> None:
        self.shim.send("close_stdin")

    def _on_message(self, message: Message, descriptors: tuple[int, ...]) -> None:
        if isinstance(message, Reply) and message.id in self._received and not self._received[message.id]:
            self._received[message.id] = descriptors
        else:
            close_all(descriptors)
        match message:
            case Ready():
                self.shim.send("go")
            case Started() if message.pid:
                self._lifecycle.started(self._container, message.started_at)
                self._finish_startup()
            case Exit():
                self._exited(message)
            case Reply():
                _resolve(self._replies.get(message.id), message.error)
            case ExecExit():
                _resolve(self._execs.get(message.id), message.code)

    def _exited(self, end: Exit) -> None:
        apply_exit(self._lifecycle, self._container, end)
        self._finish_startup()

    def _on_gone(self) -> None:
        """Handle the end of the shim; its files record how it ended."""
        if end := read_exit(self._directory):
            self._exited(end)
        elif (began := read_started(self._directory)) and self._container.life.state is not ContainerState.EXITED:
            self._lifecycle.lost(self._container, time.time_ns())
            self._on_lost(self._container, began)
        self._finish_startup(
            LauncherGone(f"the container's shim ended before it began{trace(self._directory)}; try again")
        )
        for reply in self._replies.values():
            _resolve(reply, _ENDING)
        for ended in self._execs.values():
            if not ended.done():
                ended.set_exception(ExecFailed("the container ended while the command ran"))
                ended.exception()  # retrieved, so that asyncio does not log it if there is no waiter

    def _finish_startup(self, error: Exception | None = None) -> None:
        if self.startup.done():
            return
        if error is not None and self._container.life.state is ContainerState.CREATED:
            self.startup.set_exception(error)
            self.startup.exception()
        else:
            self.startup.set_result(None)


def trace(directory: Path) -> str:
    """Return the last line of a crashed shim's traceback, if any."""
    try:
        return ": " + (directory / channel.TRACE_FILE).read_text().splitlines()[-1]
    except (OSError, IndexError):
        return ""


def apply_exit(lifecycle: Lifecycle, container: Container, end: Exit) -> None:
    """Apply an exit record, or the message of the same content, to the lifecycle."""
    if end.message:
        lifecycle.start_failed(container, end.finished_at, end.message)
        return
    lifecycle.started(container, end.finished_at)  # no effect unless started.json was never written
    lifecycle.exited(container, end.finished_at, end.code, end.oom_killed)


def _resolve(future: "asyncio.Future[_T] | None", value: _T) -> None:
    if future is not None and not future.done():
        future.set_result(value)
