"""Turns of long computations, so that the event loop has time for everything else between two of them."""

import asyncio
import time
from types import TracebackType

TURN_S, PAUSE_S = 0.002, 0.003
"""Computations that share a pacer take 40 % of the loop's time together at most."""


class Turns:
    """The turns of one computation: so many seconds each, with a pause after each."""

    def __init__(self, turn_s: float, pause_s: float) -> None:
        self._turn_s, self._pause_s = turn_s, pause_s
        self._begin()

    async def rest_if_due(self) -> None:
        """Rest if the turn has lasted long enough."""
        if time.monotonic() > self._end:
            await self.rest()

    async def rest(self) -> None:
        """End a turn, and return when the next one may begin."""
        await asyncio.sleep(self._pause_s)
        self._begin()

    def _begin(self) -> None:
        self._end = time.monotonic() + self._turn_s


class Pacer:
    """Shared by all that compute for long. `async with pacer.turns() as turns`, then `await turns.rest()`."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()

    def turns(self) -> "ExclusiveTurns":
        return ExclusiveTurns(self.lock)


class ExclusiveTurns(Turns):
    """Turns of which only one computation at a time has one."""

    def __init__(self, lock: asyncio.Lock) -> None:
        super().__init__(TURN_S, PAUSE_S)
        self._lock, self._held = lock, False

    async def __aenter__(self) -> "ExclusiveTurns":
        await self._acquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    async def rest(self) -> None:
        await super().rest()
        self._release()
        await self._acquire()

    async def _acquire(self) -> None:
        await self._lock.acquire()
        self._held = True
        self._begin()

    def _release(self) -> None:
        if self._held:  # not after a cancelled wait
            self._held = False
            self._lock.release()
