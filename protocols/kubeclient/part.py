"""The part of this process that makes a request: all share one user, and a server's traces name who it was."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

_PART: ContextVar[str] = ContextVar("part", default="")


async def acting_as(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run a part in a task of its own: `name` is in the User-Agent of its requests, and of those of tasks it starts."""
    _PART.set(name)
    await run()


def user_agent(program: str) -> str:
    """Return PROGRAM/PART, or PROGRAM outside of a part."""
    part = _PART.get()
    return f"{program}/{part}" if part else program
