"""One-time permissions to open a stream: a URL is good once, for a minute. Pure."""

import secrets
from collections.abc import Callable
from typing import Generic, TypeVar

from actors.runtime.model.errors import TooManyTickets

VALID_S = 60.0
MOST = 1000
T = TypeVar("T")


class Tickets(Generic[T]):
    """`clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[str, tuple[float, T]] = {}

    def give(self, what: T) -> str:
        """The token. Raises TooManyTickets."""
        now = self._clock()
        self._open = {token: entry for token, entry in self._open.items() if entry[0] > now}
        if len(self._open) >= MOST:
            raise TooManyTickets(f"{MOST} streams were asked for and not opened; try again in a minute")
        token = secrets.token_urlsafe(32)
        self._open[token] = (now + VALID_S, what)
        return token

    def take(self, token: str) -> T | None:
        """None when it was never given, was used or is too old."""
        until, what = self._open.pop(token, (0.0, None))
        return what if until > self._clock() else None
