"""How a command is connected: by three pipes, or by one terminal. One end of each is ours, the other the command's."""

import contextlib
import fcntl
import os
import struct
import termios
from typing import Protocol

from actors.runtime.streaming.descriptors import LINGER_S, Reader, Writer
from protocols.streams.channels import STDERR, STDOUT, Size

END_OF_INPUT = b"\x04"
"""What a terminal sends for Ctrl-D."""


class Stdio(Protocol):
    ends: tuple[int, int, int]
    """Stdin, stdout and stderr of the command."""
    terminal: bool
    readers: dict[int, Reader]
    """By channel."""

    def handed_over(self) -> None:
        """The command has its ends."""

    async def write(self, data: bytes) -> None: ...

    async def end_input(self) -> None: ...

    def resize(self, size: Size) -> None: ...

    def close(self) -> None: ...


class Pipes:
    terminal = False

    def __init__(self, stdin: bool, outputs: tuple[int, ...] = (STDOUT, STDERR)) -> None:
        """An output that is not among `outputs` (channels) goes nowhere."""
        self._ours: list[int] = []
        self.readers: dict[int, Reader] = {}
        source, self._input = os.pipe2(os.O_CLOEXEC) if stdin else (_nothing(), -1)
        self.ends = (source, self._output(STDOUT, outputs), self._output(STDERR, outputs))
        self._theirs = list(self.ends)
        self._writer = Writer(self._input) if stdin else None

    def handed_over(self) -> None:
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
        """A pipe has no size."""

    def _output(self, channel: int, wanted: tuple[int, ...]) -> int:
        if channel not in wanted:
            return _nothing()
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        self._ours.append(ours)
        self.readers[channel] = Reader(ours)
        return theirs

    def close(self) -> None:
        self.handed_over()
        while self._ours:
            os.close(self._ours.pop())
        if self._input >= 0:
            os.close(self._input)
            self._input = -1


class Terminal:
    terminal = True

    def __init__(self) -> None:
        self._ours, self._theirs = os.openpty()
        self.ends = (self._theirs, self._theirs, self._theirs)
        self.readers = {STDOUT: Reader(self._ours, LINGER_S)}
        self._writer = Writer(self._ours)

    def handed_over(self) -> None:
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
        self.handed_over()
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1


def _nothing() -> int:
    return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def set_size(descriptor: int, size: Size) -> None:
    """No effect on what is no terminal."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))
