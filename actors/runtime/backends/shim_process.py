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

from actors.runtime.backends.shim_link import (
    ExecExit,
    Exit,
    Message,
    Ready,
    Reply,
    ShimLink,
    Started,
    close_all,
    read_exit,
    read_started,
)
from actors.runtime.model.containers import Container, ExecResult, State
from actors.runtime.model.errors import ExecFailed, ExecTimedOut, LauncherGone
from actors.runtime.shim import channel
from actors.runtime.state.lifecycle import Lifecycle

OUTPUT_CAP = 16 * 1024 * 1024 - 64 * 1024
"""Bytes kept of both streams together, so that the reply fits into one gRPC message; the rest is read and dropped."""

_CHUNK = 64 * 1024


class Capture:
    """Two pipes. `ends` (an empty stdin, then the write ends) go to the command; read() and close() are ours."""

    def __init__(self, cap: int = OUTPUT_CAP) -> None:
        self._left = cap
        self._outputs: dict[int, bytearray] = {}
        self._loop = asyncio.get_running_loop()
        self._closed = self._given = False
        ends = [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
        self.ends = (os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), ends[0][1], ends[1][1])
        self._read_ends = (ends[0][0], ends[1][0])
        for descriptor in self._read_ends:
            os.set_blocking(descriptor, False)
            self._outputs[descriptor] = bytearray()
            self._loop.add_reader(descriptor, self._read, descriptor)

    def handed_over(self) -> None:
        """The ends are the command's now."""
        if not self._given:
            self._given = True
            for descriptor in self.ends:
                os.close(descriptor)

    def take(self) -> tuple[bytes, bytes]:
        """All output there is now: the command has ended, and whoever still holds its pipes is not waited for."""
        for descriptor in self._read_ends:
            while self._read(descriptor):
                pass
        return bytes(self._outputs[self._read_ends[0]]), bytes(self._outputs[self._read_ends[1]])

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.handed_over()
            for descriptor in self._read_ends:
                self._loop.remove_reader(descriptor)
                os.close(descriptor)

    def _read(self, descriptor: int) -> bool:
        """One chunk; False when there is nothing now or nothing more."""
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


class Process:
    """Reports to the lifecycle in the step in which a message is read: no waiter runs between STARTED and STOPPED."""

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
        self._given: dict[int, tuple[int, ...]] = {}
        """Descriptors that came with a reply, until whoever asked takes them."""
        self._execs: dict[int, asyncio.Future[int]] = {}
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the container runs or has failed to; LauncherGone when the shim went before it began."""
        self.link = ShimLink(connection, self._on_message, self._on_gone)

    async def call(self, op: str, descriptors: tuple[int, ...] = (), number: int = 0, **fields: object) -> str:
        """An order that is answered: the error text, empty when it was carried out."""
        number = number or next(self._numbers)
        reply = self._replies[number] = asyncio.get_running_loop().create_future()
        try:
            if not self.link.order(op, descriptors, id=number, **fields):
                return _ENDING
            return await asyncio.wait_for(reply, REPLY_DEADLINE_S)
        except TimeoutError:
            return "the container's shim does not answer"
        finally:
            del self._replies[number]

    async def execute(self, command: list[str], timeout: float) -> ExecResult:
        """Raises ExecFailed, ExecTimedOut. Cancelled, it kills the command too."""
        capture = Capture()
        try:
            async with self.running(command, capture.ends) as ended:
                capture.handed_over()
                code = await asyncio.wait_for(ended, timeout or None)
                return ExecResult(*capture.take(), exit_code=code)
        except TimeoutError:
            raise ExecTimedOut(f"timeout {timeout:g}s exceeded by command {command[0]!r}") from None
        finally:
            capture.close()

    @contextlib.asynccontextmanager
    async def running(
        self, command: list[str], ends: tuple[int, int, int], terminal: bool = False
    ) -> AsyncGenerator["asyncio.Future[int]", None]:
        """A command beside the container, on these descriptors; whoever leaves before its end kills it.

        Gives the future of its exit code. Raises ExecFailed.
        """
        number = next(self._numbers)
        ended = self._execs[number] = asyncio.get_running_loop().create_future()
        try:
            if error := await self.call("exec", ends, number, argv=command, terminal=terminal):
                raise ExecFailed(error)
            yield ended
        finally:
            if not ended.done() or ended.cancelled():
                self.link.order("kill_exec", id=number)
            del self._execs[number]

    @contextlib.asynccontextmanager
    async def attached(self, outputs: tuple[int, int]) -> AsyncGenerator[int, None]:
        """Copies of the container's output go to `outputs`.

        Gives the descriptor of its input, the caller's to close; -1 without one.
        """
        number = next(self._numbers)
        self._given[number] = ()
        try:
            if error := await self.call("attach", outputs, number):
                raise ExecFailed(error)
            given, self._given[number] = self._given[number], ()
            yield next(iter(given), -1)
        finally:
            close_all(self._given.pop(number))
            self.link.order("detach", id=number)

    def close_input(self) -> None:
        self.link.order("close_stdin")

    def _on_message(self, message: Message, descriptors: tuple[int, ...]) -> None:
        if isinstance(message, Reply) and message.id in self._given and not self._given[message.id]:
            self._given[message.id] = descriptors
        else:
            close_all(descriptors)
        match message:
            case Ready():
                self.link.order("go")
            case Started() if message.pid:
                self._lifecycle.started(self._container, message.started_at)
                self._settle()
            case Exit():
                self._exited(message)
            case Reply():
                _resolve(self._replies.get(message.id), message.error)
            case ExecExit():
                _resolve(self._execs.get(message.id), message.code)

    def _exited(self, end: Exit) -> None:
        apply_exit(self._lifecycle, self._container, end)
        self._settle()

    def _on_gone(self) -> None:
        """Every end of a shim comes here. Its files say how it ended."""
        if end := read_exit(self._directory):
            self._exited(end)
        elif (began := read_started(self._directory)) and self._container.life.state is not State.EXITED:
            self._lifecycle.lost(self._container, time.time_ns())
            self._on_lost(self._container, began)
        self._settle(LauncherGone(f"the container's shim ended before it began{trace(self._directory)}; try again"))
        for reply in self._replies.values():
            _resolve(reply, _ENDING)
        for ended in self._execs.values():
            if not ended.done():
                ended.set_exception(ExecFailed("the container ended while the command ran"))
                ended.exception()  # read here, so that one nobody waits for does not complain

    def _settle(self, error: Exception | None = None) -> None:
        if self.settled.done():
            return
        if error is not None and self._container.life.state is State.CREATED:
            self.settled.set_exception(error)
            self.settled.exception()
        else:
            self.settled.set_result(None)


def trace(directory: Path) -> str:
    """The last line of a failed shim's traceback, if it left one."""
    try:
        return ": " + (directory / channel.TRACE_FILE).read_text().splitlines()[-1]
    except (OSError, IndexError):
        return ""


def apply_exit(lifecycle: Lifecycle, container: Container, end: Exit) -> None:
    """What an exit record, or the message of the same content, means for the life."""
    if end.message:
        lifecycle.start_failed(container, end.finished_at, end.message)
        return
    lifecycle.started(container, end.finished_at)  # changes nothing unless the note of the start was never written
    lifecycle.exited(container, end.finished_at, end.code, end.starved)


def _resolve(future: "asyncio.Future[_T] | None", value: _T) -> None:
    if future is not None and not future.done():
        future.set_result(value)
