"""Wait for clients that read slowly, or not at all.

A response that waits for its client gives its seats back: what is left to do depends on the client alone. A client that
reads nothing for PROGRESS_S loses its connection. A watch takes its seats along until its initial events are written.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Self

from protocols.serving.progress import Progress

SEAT_S = 1.0
"""Seats are given back after waiting this long, so that a client's round trip is no reason to."""
PROGRESS_S = 30.0


def _no_seat() -> None:
    """A request without seats."""


give_back: ContextVar[Callable[[], None]] = ContextVar("give_back", default=_no_seat)
"""Gives back the seats of the current request; further calls have no effect."""
keep: ContextVar[Callable[[], object]] = ContextVar("keep", default=_no_seat)
"""Lets the seats outlive the request's task: they must be given back by `give_back` then."""


class Unread:
    """Context manager around a write that may wait for the client, whose connection ends if it reads nothing.

    Draining raises once the connection is lost.
    """

    __slots__ = ("_progress", "_timer", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def __enter__(self) -> Self:
        self._progress = Progress(self._transport, time.monotonic())
        self._arm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(SEAT_S, self._check)

    def _check(self) -> None:
        give_back.get()()
        if self._progress.stalled_s(time.monotonic()) >= PROGRESS_S:
            self._transport.abort()
        self._arm()


def seated(parts: Iterator[bytes], give_back: Callable[[], None]) -> Iterator[bytes]:
    """Yield parts that are written after the request's task has ended.

    Gives the seats back after the last part, when the parts are dropped, or when none is taken for SEAT_S.
    """
    begun = _seated(parts, give_back)
    next(begun)  # what is dropped before it begins ends nothing
    return begun


def _seated(parts: Iterator[bytes], give_back: Callable[[], None]) -> Iterator[bytes]:
    """Begins with an empty part."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None
    taken = loop.time()

    def check() -> None:
        nonlocal timer
        if timer is None or loop.time() - taken < SEAT_S:
            timer = loop.call_later(SEAT_S, check)
        else:
            give_back()

    check()
    try:
        yield b""
        for part in parts:
            yield part
            taken = loop.time()
    finally:
        if timer is not None:
            timer.cancel()
        give_back()
