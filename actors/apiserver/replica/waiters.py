"""Requests that wait for a revision, and the call that hastens it."""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Coroutine
from contextlib import suppress

from protocols.bus import Bus
from protocols.errors import NodeplaneError
from protocols.messages.objects import FRESHEN, OWNER, Freshen
from protocols.messages.supervisor import Empty

PROGRESS_TIMEOUT = 3.0
Spawn = Callable[[Coroutine[None, None, None], str], asyncio.Task[None]]


class RevisionWaiters:
    """Requests that wait for a revision. Each is woken once, at its revision or at its deadline."""

    def __init__(self) -> None:
        self.pending: list[tuple[int, int, asyncio.Future[None]]] = []
        """A heap. While it is empty, `advance` need not be called."""
        self._order = itertools.count()
        self._left = 0
        """Entries of requests that wait no longer: never more than half, however long no revision arrives."""

    async def wait(self, rv: int, timeout: float) -> bool:
        """Return True once `advance` reaches `rv`, False at the deadline."""
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self.pending, (rv, next(self._order), future))
        try:
            done, _ = await asyncio.wait([future], timeout=timeout)
            return bool(done)
        finally:
            if future.cancel():
                self._leave()

    def _leave(self) -> None:
        self._left += 1
        if 2 * self._left > len(self.pending):
            self.pending[:] = [entry for entry in self.pending if not entry[2].done()]
            heapq.heapify(self.pending)
            self._left = 0

    def advance(self, rv: int) -> None:
        while self.pending and (self.pending[0][0] <= rv or self.pending[0][2].done()):
            future = heapq.heappop(self.pending)[2]
            if future.done():
                self._left -= 1
            else:
                future.set_result(None)


class ProgressRequester:
    """Ask the watch cache of one store to bring its followers to a revision at once.

    One call at a time is enough: it asks for the highest revision that any request waits for.
    """

    def __init__(self, bus: Bus, store: int, spawn: Spawn) -> None:
        self._bus, self._store, self._spawn = bus, store, spawn
        self._wanted = 0
        self._calling: asyncio.Task[None] | None = None

    def request_progress(self, revision: int) -> None:
        idle = self._calling is None or self._calling.done()
        self._wanted = revision if idle else max(self._wanted, revision)
        if idle:
            self._calling = self._spawn(self._call(), "freshen")

    async def _call(self) -> None:
        asked = 0
        while asked < self._wanted:
            asked = self._wanted
            request = Freshen(asked, self._store)
            with suppress(NodeplaneError):
                await self._bus.call(OWNER, FRESHEN, request, Empty, timeout=PROGRESS_TIMEOUT)
