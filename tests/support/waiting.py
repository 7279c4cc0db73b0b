"""Wait for what must come about: poll with a deadline that a busy machine does not miss."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Late(AssertionError):
    """Raised when something that had to come about did not within its time."""


def until(what: str, holds: Callable[[], T], timeout: float = 60.0, every: float = 0.05) -> T:
    """Poll `holds` until it gives something true; Late names what was waited for and the last answer."""
    deadline, answer = time.monotonic() + timeout, None
    while time.monotonic() < deadline:
        began = time.monotonic()
        answer = holds()
        if answer:
            return answer
        time.sleep(max(every, min(2 * (time.monotonic() - began), 1.0)))  # kubectl may take a third of a core, not all
    raise Late(f"{what} did not come about within {timeout:g} s; last: {answer!r}")


async def until_async(what: str, holds: Callable[[], Any], timeout: float = 60.0, every: float = 0.02) -> Any:
    """Poll `holds`, which may be a coroutine function, in the event loop."""
    deadline, answer = time.monotonic() + timeout, None
    while time.monotonic() < deadline:
        got = holds()
        answer = await got if asyncio.iscoroutine(got) else got
        if answer:
            return answer
        await asyncio.sleep(every)
    raise Late(f"{what} did not come about within {timeout:g} s; last: {answer!r}")
