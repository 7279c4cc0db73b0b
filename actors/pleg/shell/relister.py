"""Relist the runtime when due and inspect single pods on request; all results go to the StatusMerger.

One relist runs at a time, and at most PARALLEL inspections.
"""

import asyncio
import time
from collections.abc import Callable

import msgspec

from actors.pleg.shell.mode_selector import ModeSelector
from actors.pleg.shell.runtime_client import Inspection, InspectionFailed, RelistFailed, RuntimeClient
from actors.pleg.state_machine.lifecycle_events import Source
from actors.pleg.state_machine.status_cache import CachedStatus
from actors.pleg.state_machine.status_merger import StatusChange, StatusMerger
from protocols.process.rates import TokenBucket
from protocols.process.tasks import Tasks, report
from protocols.trace import span

RELIST_BURST, RELISTS_PER_S = 5.0, 1.0
"""Bound of requested full relists: malformed answers of the runtime must not cause a busy loop."""
PARALLEL = 8
RETRY_S = 0.1
RETRIES_FAST = 50
UNINSPECTABLE_RELIST_S = 2.0
"""Longest time between relists while a listed pod cannot be inspected."""
HINTS = 200
"""Most pods waiting for an inspection; one more causes a full relist instead (the size of upstream's queue)."""
TRIES = 3
"""Inspections of one pod in a row while events overtake them."""


class RelisterOptions(msgspec.Struct, frozen=True):
    """Dependencies of relists, and who gets their results."""

    merger: StatusMerger
    runtime: RuntimeClient
    mode: ModeSelector
    """Gives the period of relists; learns when one succeeded and if the runtime stamps its statuses."""
    on_change: Callable[[StatusChange, Source], None]
    """Called with each change that a relist or the inspection of one pod found."""
    on_relist: Callable[[float], None]
    """Called after a successful full relist with its duration in seconds."""
    on_inspected: Callable[[float], None]
    """Called after one pod's inspection with its duration in seconds."""
    on_failure: Callable[[], None]
    """Called when `failure` has changed."""


class Relister:
    """Relists and inspections; requests beyond the bounds become a relist."""

    def __init__(self, options: RelisterOptions) -> None:
        self._options = options
        self._merger = options.merger
        self._due = asyncio.Event()
        self._moved = asyncio.Event()
        self._limiter = TokenBucket(RELISTS_PER_S, RELIST_BURST, RELIST_BURST, 0.0)
        self._inspections: dict[str, asyncio.Task[None]] = {}
        self._tasks = Tasks()
        self._slots = asyncio.Semaphore(PARALLEL)
        self.failure = ""
        """The most recent error of a listing or inspection; empty when all succeed."""

    def request_relist(self) -> None:
        """Request a full relist soon: something may have been missed."""
        self._due.set()
        self._moved.set()

    def period_changed(self) -> None:
        """Apply a changed period to the current pause."""
        self._moved.set()

    def request_inspection(self, uid: str) -> None:
        """Request the inspection of one pod because of an event."""
        if uid in self._inspections or len(self._inspections) < HINTS:
            self.inspect(uid)
        else:
            self.request_relist()

    def inspect(self, uid: str) -> "asyncio.Task[None]":
        """Inspect one pod now; join another inspection of it only if that has not called the runtime yet."""
        task = self._inspections.get(uid)
        if task is None or task.done():
            task = self._inspections[uid] = self._tasks.start(self._inspect_one(uid), "inspection", uid, self._broken)
        return task

    def _broken(self, name: str, error: BaseException) -> None:
        """Relist after an unknown exception: the pod's change must not be missed."""
        report(name, error)
        self.request_relist()

    async def run(self) -> None:
        failures = 0
        while True:
            failures = 0 if await self._relist() else failures + 1
            await self._pause(failures)

    async def _pause(self, failures: int) -> None:
        """Wait until the next relist is due; a changed period takes effect at once."""
        ended = time.monotonic()
        while not self._due.is_set() or failures:
            wait = self._options.mode.plan.period_s
            if self._merger.cache.uninspectable:
                wait = min(wait, UNINSPECTABLE_RELIST_S)
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
        await asyncio.sleep(self._limiter.wait(time.monotonic()))

    async def _relist(self) -> bool:
        self._due.clear()
        began, stamp = time.monotonic(), time.time_ns()
        self._merger.cache.at(stamp)
        try:
            await self._apply_listing(stamp)
        except RelistFailed as error:
            self._failed(str(error))
            return False
        self._merger.cache.completed(stamp)
        self._options.mode.last_started = began
        if not self._merger.cache.uninspectable:
            self._failed("")
        self._options.on_relist(time.monotonic() - began)
        return True

    def _failed(self, reason: str) -> None:
        if reason != self.failure:
            self.failure = reason
            self._options.on_failure()

    async def _apply_listing(self, stamp: int) -> None:
        plan = self._merger.relist(stamp, await self._options.runtime.snapshot())
        for uid in plan.vanished:
            self._apply(Inspection(uid, None, stamp, 0, None), Source.RELIST)
        inspect = plan.inspect
        if not inspect and self._options.mode.stamps_due():
            inspect = list(self._merger.cache.entries)[:1]
        results = await asyncio.gather(*(self._inspect(uid) for uid in inspect), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _inspect_one(self, uid: str) -> None:
        try:
            async with self._slots:
                del self._inspections[uid]
                await self._inspect_until_newer(uid)
        except InspectionFailed as error:
            self._mark_uninspectable(uid, error)
            self.period_changed()
        except RelistFailed as error:
            self._failed(str(error))
            self.request_relist()

    async def _inspect_until_newer(self, uid: str) -> None:
        began = time.monotonic()
        for _ in range(TRIES):
            inspection = await self._ask(uid, Source.INSPECTION)
            if self._merger.cache.newer_than(uid, inspection.stamp - 1):
                break
        else:
            self._merger.cache.observed(uid, inspection.stamp)
        self._options.on_inspected(time.monotonic() - began)

    async def _inspect(self, uid: str) -> None:
        async with self._slots:
            try:
                await self._ask(uid, Source.RELIST, relist=True)
            except InspectionFailed as error:
                self._mark_uninspectable(uid, error)

    async def _ask(self, uid: str, source: Source, **noted: bool) -> Inspection:
        """Inspect a pod, with `noted` in the span, and merge the answer. Raises InspectionFailed, RelistFailed."""
        before = self._merger.cache.entries.get(uid)
        with span(uid, "inspect", **noted):
            inspection = await self._options.runtime.inspect(uid)
        self._apply(inspection, source, before)
        return inspection

    def _mark_uninspectable(self, uid: str, error: InspectionFailed) -> None:
        self._merger.cache.mark_uninspectable(uid)
        self._failed(str(error))

    def _apply(self, inspection: Inspection, source: Source, before: CachedStatus | None = None) -> None:
        """Merge an inspection that began when the cache had `before`."""
        if inspection.stamped is not None:
            self._options.mode.on_stamps(inspection.stamped)
        change = self._merger.inspected(
            inspection.uid, inspection.status, inspection.stamp, inspection.runtime_ns, before
        )
        if change is not None:
            self._options.on_change(change, source)
