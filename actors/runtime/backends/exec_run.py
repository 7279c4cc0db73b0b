"""Reading what a command in a container writes, up to a cap, without blocking and without waiting for stragglers."""

import asyncio
import contextlib
import os

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
