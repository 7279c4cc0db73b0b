"""Wait for what must come about: poll with a deadline that a busy machine does not miss.

A wait that ends in vain says what it last saw: the last answer or OSError, and what a client of the tests noted with
`saw` below that answer.
"""

import asyncio
import inspect
import time
import urllib.error
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
LONGEST = 2000
"""Characters of each thing seen."""
LATE_PART = 0.1
"""How much longer than it must a wait may last: polls of a long wait come less often."""
LATEST_S = 0.5
"""Longest pause between two polls for that."""

_below = ""


class Late(AssertionError):
    """Raised when something that had to come about did not within its time."""


def saw(text: str) -> None:
    """Note why the answer that a wait is about to get is empty: an error, a status."""
    global _below
    _below = text


def until(
    what: str,
    holds: Callable[[], T | None],
    timeout: float = 60.0,
    every: float = 0.05,
    good: Callable[[T], object] = bool,
) -> T:
    """Poll `holds` until its answer is `good`, and return that; None and an OSError are answers that are not."""
    wait = _Wait(what, timeout)
    while wait.goes_on():
        began = time.monotonic()
        try:
            answer = holds()
        except OSError as error:
            wait.failed(error)
        else:
            if answer is not None and good(answer):
                return answer
            wait.last = answer
        polled_s = time.monotonic() - began
        time.sleep(max(wait.pause(every), min(3 * polled_s, 1.0)))  # kubectl may take a fourth of a core, not all
    raise wait.late()


async def until_async(
    what: str,
    holds: Callable[[], Any],
    timeout: float = 60.0,
    every: float = 0.02,
    good: Callable[[Any], object] = bool,
    errors: tuple[type[Exception], ...] = (),
) -> Any:
    """Poll `holds`, whose answer may be awaitable, in the event loop; one of `errors` is like an OSError."""
    wait = _Wait(what, timeout)
    unanswered: tuple[type[Exception], ...] = (OSError, *errors)
    while wait.goes_on():
        try:
            got = holds()
            answer = await got if inspect.isawaitable(got) else got
        except unanswered as error:
            wait.failed(error)
        else:
            if good(answer):
                return answer
            wait.last = answer
        await asyncio.sleep(wait.pause(every))
    raise wait.late()


async def until_true(holds: Callable[[], Any], timeout: float = 60.0, what: str = "what the test expects") -> Any:
    """`until_async` for conditions that speak for themselves."""
    return await until_async(what, holds, timeout, 0.005)


class _Wait:
    """One wait, with the last answer."""

    def __init__(self, what: str, timeout: float) -> None:
        self._what, self._timeout = what, timeout
        self._began = time.monotonic()
        self.last: object = None
        saw("")

    def goes_on(self) -> bool:
        return time.monotonic() < self._began + self._timeout

    def pause(self, every: float) -> float:
        """Return the seconds up to the next poll: a poll takes the processor from what it waits for."""
        waited = time.monotonic() - self._began
        return max(every, min(waited * LATE_PART, LATEST_S))

    def failed(self, error: Exception) -> None:
        """Note an error. One of urllib holds its connection, which the collector may find before what closes it."""
        self.last = error
        if isinstance(error, urllib.error.HTTPError):
            error.close()

    def late(self) -> Late:
        below = f"; below it: {_below[:LONGEST]}" if _below else ""
        return Late(
            f"{self._what} did not come about within {self._timeout:g} s; last: {self.last!r:.{LONGEST}}{below}"
        )
