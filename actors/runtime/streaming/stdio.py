"""Standard streams of an exec'd command in the event loop: non-blocking pipes or one terminal."""

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import AsyncGenerator
from typing import Protocol

from protocols.process.tasks import wait_set
from protocols.streams.channels import STDERR, STDOUT, Size

CHUNK = 32 * 1024
LINGER_S = 0.05
"""Time to read a terminal after its command has ended: the kernel delivers the last bytes a little later."""


class PipeReader:
    """Non-blocking reader; `chunks` ends at the end of the file, or after `finish` once the descriptor is drained."""

    def __init__(self, descriptor: int, linger: float = 0.0) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._linger = linger
        self._last = False
        self.ended = asyncio.Event()
        """Set after the last chunk."""
        self._wake = asyncio.Event()

    def finish(self) -> None:
        """Read what is there and end, without waiting for other holders of the descriptor."""
        self._last = True
        self._wake.set()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async for data in self._read():
                yield data
        finally:
            self.ended.set()

    async def _read(self) -> AsyncGenerator[bytes, None]:
        lingered = False
        while True:
            self._wake.clear()
            last = self._last  # before the read, which then returns everything written so far
            try:
                data = os.read(self._descriptor, CHUNK)
            except BlockingIOError:
                if last and (lingered or not self._linger):
                    return
                lingered = last
                await self._readable(self._linger if last else None)
                continue
            except OSError:  # EIO: no process has the terminal open any more
                return
            if not data:
                return
            yield data

    async def _readable(self, timeout: float | None) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._descriptor, self._wake.set)
        try:
            await wait_set(self._wake, timeout)
        finally:
            loop.remove_reader(self._descriptor)


class Writer:
    """Non-blocking writer; drops data once the reader is gone."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:
                await self._writable()
            except OSError:
                return

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(self._descriptor, _resolve, ready)
        try:
            await ready
        finally:
            loop.remove_writer(self._descriptor)


def _resolve(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


END_OF_INPUT = b"\x04"
"""Ctrl-D."""


class Stdio(Protocol):
    """Standard streams of a command: the ends that it inherits, and ours."""

    ends: tuple[int, int, int]
    """Stdin, stdout and stderr of the command."""
    terminal: bool
    readers: dict[int, PipeReader]
    """By channel."""

    def close_child_ends(self) -> None:
        """Close the ends, which the command has inherited."""

    async def write(self, data: bytes) -> None: ...

    async def end_input(self) -> None: ...

    def resize(self, size: Size) -> None: ...

    def close(self) -> None: ...


class Pipes:
    """Standard streams as pipes; without stdin the command reads /dev/null."""

    terminal = False

    def __init__(self, stdin: bool, outputs: tuple[int, ...] = (STDOUT, STDERR)) -> None:
        """Discard outputs that are not among the channels `outputs`."""
        self._ours: list[int] = []
        self.readers: dict[int, PipeReader] = {}
        source, self._input = os.pipe2(os.O_CLOEXEC) if stdin else (_open_null(), -1)
        self.ends = (source, self._output(STDOUT, outputs), self._output(STDERR, outputs))
        self._theirs = list(self.ends)
        self._writer = Writer(self._input) if stdin else None

    def close_child_ends(self) -> None:
        while self._theirs:
            os.close(self._theirs.pop())

    async def write(self, data: bytes) -> None:
        if self._writer is not None:
            await self._writer.write(data)

    async def end_input(self) -> None:
        if self._input >= 0:
            os.close(self._input)
            self._input, self._writer = -1, None

    def resize(self, size: Size) -> None:
        """Do nothing: a pipe has no size."""

    def _output(self, channel: int, wanted: tuple[int, ...]) -> int:
        if channel not in wanted:
            return _open_null()
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        self._ours.append(ours)
        self.readers[channel] = PipeReader(ours)
        return theirs

    def close(self) -> None:
        self.close_child_ends()
        while self._ours:
            os.close(self._ours.pop())
        if self._input >= 0:
            os.close(self._input)
            self._input = -1


class Terminal:
    """Standard streams as one terminal, whose output is that of both channels."""

    terminal = True

    def __init__(self) -> None:
        self._ours, self._theirs = os.openpty()
        self.ends = (self._theirs, self._theirs, self._theirs)
        self.readers = {STDOUT: PipeReader(self._ours, LINGER_S)}
        self._writer = Writer(self._ours)

    def close_child_ends(self) -> None:
        if self._theirs >= 0:
            os.close(self._theirs)
            self._theirs = -1

    async def write(self, data: bytes) -> None:
        await self._writer.write(data)

    async def end_input(self) -> None:
        await self._writer.write(END_OF_INPUT)

    def resize(self, size: Size) -> None:
        set_size(self._ours, size)

    def close(self) -> None:
        self.close_child_ends()
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1


def _open_null() -> int:
    return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def set_size(descriptor: int, size: Size) -> None:
    """Set a terminal's size; no effect on other descriptors."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))
