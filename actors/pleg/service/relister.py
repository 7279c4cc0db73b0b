"""How often a full relist may be asked for: nonsense from the runtime must not become a busy loop. Pure."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from actors.pleg.service.runtime_client import Inspection, InspectionFailed, RelistFailed, Runtime
from actors.pleg.state_machine.status_merger import Change, Ledger
from protocols.pace import Bucket

BURST = 5.0
PER_S = 1.0


class Pace(Bucket):
    """A bucket of BURST relists that fills by PER_S."""

    def __init__(self) -> None:
        super().__init__(PER_S, BURST, BURST, 0.0)


PARALLEL = 8
RETRY_S = 0.1
RETRIES_FAST = 50
UNSURE_S = 2.0
"""Until all is listed again while the runtime tells nothing of some pod it holds."""
HINTS = 200
"""Pods that may wait for an inspection asked for by an event; beyond it everything is listed (upstream's queue)."""
TRIES = 3
"""Inspections of one pod in a row that an event may overtake."""


@dataclass(frozen=True)
class RelisterOptions:
    ledger: Ledger
    runtime: Runtime
    on_change: Callable[[Change], None]
    """What an inspection found."""
    on_relist: Callable[[int, float], None]
    """After a good full relist: its start (ns since the epoch) and duration in seconds."""
    on_stamps: Callable[[bool], None]
    """After an inspection that showed whether the runtime stamps its statuses."""
    on_inspected: Callable[[float], None]
    """After one pod's inspection, with its duration in seconds."""
    on_failure: Callable[[], None]
    """`failure` has changed."""
    period: Callable[[], float]
    """Seconds until the next full relist, by the mode in use now."""


class Relister:
    def __init__(self, options: RelisterOptions) -> None:
        self._options = options
        self._ledger = options.ledger
        self._due = asyncio.Event()
        self._moved = asyncio.Event()
        self._pace = Pace()
        self._inspections: dict[str, asyncio.Task[None]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(PARALLEL)
        self.last_started = 0.0
        """Monotonic time at which the last good relist began; 0 = none yet."""
        self.failure = ""
        """Why the runtime could not be listed or a pod not be inspected, most recently; empty once all is well."""

    def full(self) -> None:
        """Something may have been missed: list everything soon."""
        self._due.set()
        self._moved.set()

    def rearm(self) -> None:
        """The period has changed."""
        self._moved.set()

    def hint(self, uid: str) -> None:
        """An event gave reason to look at one pod."""
        if uid in self._inspections or len(self._inspections) < HINTS:
            self.one(uid)
        else:
            self.full()

    def one(self, uid: str) -> "asyncio.Task[None]":
        """Inspect one pod now; joins an inspection only if that has not begun to ask yet."""
        task = self._inspections.get(uid)
        if task is None:
            task = asyncio.ensure_future(self._one(uid))
            self._inspections[uid] = task
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return task

    async def run(self) -> None:
        failures = 0
        while True:
            failures = 0 if await self._relist() else failures + 1
            await self._pause(failures)

    async def _pause(self, failures: int) -> None:
        """Until the next relist is due; a period that changes meanwhile holds at once."""
        ended = time.monotonic()
        while not self._due.is_set() or failures:
            wait = self._options.period()
            if self._ledger.cache.unsure:
                wait = min(wait, UNSURE_S)
            if failures:
                wait = RETRY_S if failures < RETRIES_FAST else min(wait, 1.0)
            self._moved.clear()
            left = ended + wait - time.monotonic()
            if left <= 0:
                return
            try:
                async with asyncio.timeout(left + 0.001):
                    await (asyncio.sleep(left) if failures else self._moved.wait())
            except TimeoutError:
                return
        await asyncio.sleep(self._pace.wait(time.monotonic()))

    async def _relist(self) -> bool:
        self._due.clear()
        began, stamp = time.monotonic(), time.time_ns()
        try:
            await self._take_in(stamp)
        except RelistFailed as error:
            self._failed(str(error))
            return False
        self._ledger.cache.completed(stamp)
        self.last_started = began
        if not self._ledger.cache.unsure:
            self._failed("")
        self._options.on_relist(stamp, time.monotonic() - began)
        return True

    def _failed(self, reason: str) -> None:
        if reason != self.failure:
            self.failure = reason
            self._options.on_failure()

    async def _take_in(self, stamp: int) -> None:
        plan = self._ledger.relist(stamp, await self._options.runtime.snapshot())
        for uid in plan.vanished:
            self._apply(Inspection(uid, None, stamp, 0, None))
        results = await asyncio.gather(*(self._inspect(uid) for uid in plan.inspect), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _one(self, uid: str) -> None:
        try:
            async with self._slots:
                del self._inspections[uid]
                await self._looked_at(uid)
        except InspectionFailed as error:
            self._doubt(uid, error)
            self.rearm()
        except RelistFailed as error:
            self._failed(str(error))
            self.full()

    async def _looked_at(self, uid: str) -> None:
        began = time.monotonic()
        for _ in range(TRIES):
            inspection = await self._options.runtime.inspect(uid)
            self._apply(inspection)
            if self._ledger.cache.newer_than(uid, inspection.stamp - 1):
                break
        else:
            self._ledger.cache.observed(uid, inspection.stamp)
        self._options.on_inspected(time.monotonic() - began)

    async def _inspect(self, uid: str) -> None:
        async with self._slots:
            try:
                self._apply(await self._options.runtime.inspect(uid))
            except InspectionFailed as error:
                self._doubt(uid, error)

    def _doubt(self, uid: str, error: InspectionFailed) -> None:
        self._ledger.cache.doubt(uid)
        self._failed(str(error))

    def _apply(self, inspection: Inspection) -> None:
        if inspection.stamps is not None:
            self._options.on_stamps(inspection.stamps)
        change = self._ledger.inspected(inspection.uid, inspection.status, inspection.stamp, inspection.told)
        if change is not None:
            self._options.on_change(change)
