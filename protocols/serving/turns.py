"""Spread what happens at thousands of connections at once over several turns of the event loop.

A loop hands over everything that is ready in one turn. When a network fails, that is the end of all connections.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

TURN_S = 0.01
"""Time after which the connections that are ready in a turn are left for later ones."""


class Turns:
    """The turns of one loop, shared by its connections. Bound to the running loop at the first use."""

    def __init__(self) -> None:
        self._ends: float | None = None
        """When this turn's time is over; None before its first connection."""
        self._waiting: deque[Callable[[], None]] = deque()
        self._called = False
        """The loop calls `_go_on` in its next turn."""

    def over(self) -> bool:
        """Return True once connections have taken the time of this turn."""
        now = time.monotonic()
        if self._ends is None:
            self._begin(now)
            return False
        return now >= self._ends

    def later(self, work: Callable[[], None]) -> None:
        """Call `work` in the next turn that has time for it. Each connection waits once at most."""
        self._waiting.append(work)
        self._call()

    def _begin(self, now: float) -> None:
        self._ends = now + TURN_S
        self._call()

    def _call(self) -> None:
        if not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._called, self._ends = False, None
        for _ in range(len(self._waiting)):
            if self.over():
                break
            self._waiting.popleft()()
        if self._waiting:
            self._call()
