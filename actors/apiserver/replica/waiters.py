"""Requests that wait until the replica has reached a revision."""

import asyncio
import heapq
import itertools


class Waiters:
    """Bound to the running loop; each waiter is woken once, at its revision or at its deadline."""

    def __init__(self) -> None:
        self.pending: list[tuple[int, int, asyncio.Future[None]]] = []
        """A heap; empty: there is nothing to advance."""
        self._order = itertools.count()

    async def wait(self, rv: int, timeout: float) -> bool:
        """True when `advance` reached `rv` in time."""
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self.pending, (rv, next(self._order), future))
        done, _ = await asyncio.wait([future], timeout=timeout)
        future.cancel()
        return bool(done)

    def advance(self, rv: int) -> None:
        while self.pending and (self.pending[0][0] <= rv or self.pending[0][2].done()):
            future = heapq.heappop(self.pending)[2]
            if not future.done():
                future.set_result(None)
