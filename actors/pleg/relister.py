"""When the runtime is listed, and what is inspected: the shell around the ledger. One relist at a time."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from actors.pleg.errors import RelistFailed
from actors.pleg.ledger import Change, Ledger
from actors.pleg.runtime import Inspection, Runtime

PARALLEL = 8
RETRY_S = 0.1
RETRIES_FAST = 50


@dataclass(frozen=True)
class RelisterOptions:
    ledger: Ledger
    runtime: Runtime
    on_change: Callable[[Change], None]
    on_relist: Callable[[float], None]
    """After a good full relist, with its duration in seconds."""
    on_stamps: Callable[[bool], None]
    """After an inspection that showed whether the runtime stamps its statuses."""
    period: Callable[[], float]
    """Seconds until the next full relist, by the mode in use now."""


class Relister:
    def __init__(self, options: RelisterOptions) -> None:
        self._options = options
        self._ledger = options.ledger
        self._due = asyncio.Event()
        self._inspections: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(PARALLEL)
        self.last_started = 0.0
        """Monotonic time at which the last good relist began; 0 = none yet."""
        self.failure = ""

    def full(self) -> None:
        """Something may have been missed: list everything now."""
        self._due.set()

    def one(self, uid: str) -> "asyncio.Task[None]":
        """Inspect one pod now; joins an inspection only if that has not begun to ask yet."""
        task = self._inspections.get(uid)
        if task is None:
            task = asyncio.ensure_future(self._one(uid))
            self._inspections[uid] = task
        return task

    async def run(self) -> None:
        failures = 0
        while True:
            failures = 0 if await self._relist() else failures + 1
            wait = RETRY_S if 0 < failures < RETRIES_FAST else self._options.period()
            try:
                await asyncio.wait_for(self._due.wait(), wait if not failures else min(wait, 1.0))
            except TimeoutError:
                continue

    async def _relist(self) -> bool:
        self._due.clear()
        began, stamp = time.monotonic(), time.time_ns()
        try:
            await self._take_in(stamp)
        except RelistFailed as error:
            self.failure = str(error)
            return False
        self._ledger.cache.completed(stamp)
        self.last_started, self.failure = began, ""
        self._options.on_relist(time.monotonic() - began)
        return True

    async def _take_in(self, stamp: int) -> None:
        plan = self._ledger.relist(stamp, await self._options.runtime.snapshot())
        for uid in plan.vanished:
            self._apply(Inspection(uid, None, stamp, None))
        results = await asyncio.gather(*(self._inspect(uid) for uid in plan.inspect), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _one(self, uid: str) -> None:
        try:
            async with self._slots:
                del self._inspections[uid]
                self._apply(await self._options.runtime.inspect(uid))
        except RelistFailed as error:
            self.failure = str(error)
            self.full()

    async def _inspect(self, uid: str) -> None:
        async with self._slots:
            self._apply(await self._options.runtime.inspect(uid))

    def _apply(self, inspection: Inspection) -> None:
        if inspection.stamps is not None:
            self._options.on_stamps(inspection.stamps)
        change = self._ledger.inspected(inspection.uid, inspection.status, inspection.stamp)
        if change is not None:
            self._options.on_change(change)
