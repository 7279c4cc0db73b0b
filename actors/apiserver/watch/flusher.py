"""Writes what is pending once a loop turn: several events of one turn leave in one write to each watch."""

import asyncio
from typing import Protocol


class Due(Protocol):
    def flush(self) -> None:
        """Write what is pending. Called once for each time it was wanted."""


class Flusher:
    """Bound to the running loop when first used. Who wants to be flushed says so once, until it has been."""

    def __init__(self) -> None:
        self._due: list[Due] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def want(self, due: Due) -> None:
        if not self._due:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()  # a system call each time it is asked
            self._loop.call_soon(self._flush)
        self._due.append(due)

    def _flush(self) -> None:
        due, self._due = self._due, []
        for each in due:
            each.flush()


def chunk(events: list[bytes]) -> bytes:
    """One chunk of a chunked body."""
    size = sum(map(len, events))
    return b"".join((b"%x\r\n" % size, *events, b"\r\n"))
