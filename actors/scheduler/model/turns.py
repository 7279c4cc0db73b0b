"""Turns of long computations: one of them computes at a time, and the loop has longer for everything else."""

import asyncio
from types import TracebackType

PAUSE_S = 0.003
"""After each turn, whoever computes: with turns of 2 ms, 40 % of the loop's time at most."""


class Pacer:
    """Shared by all that compute for long. `async with pacer.turns() as turns`, then `await turns.rest()`."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()

    def turns(self) -> "Turns":
        return Turns(self.lock)


class Turns:
    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock, self._held = lock, False

    async def __aenter__(self) -> "Turns":
        await self._acquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    async def rest(self) -> None:
        """End a turn, and return when the next one may begin."""
        await asyncio.sleep(PAUSE_S)
        self._release()
        await self._acquire()

    async def _acquire(self) -> None:
        await self._lock.acquire()
        self._held = True

    def _release(self) -> None:
        if self._held:  # not after a cancelled wait
            self._held = False
            self._lock.release()
