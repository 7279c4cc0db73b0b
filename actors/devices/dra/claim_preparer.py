"""Prepare and unprepare the claims of pods: one task per pod, one pod at a time per claim.

The order makes a crash harmless: a claim is on disk before its driver is called, and leaves the disk only after its
driver has unprepared it. Drivers are called again for anything not known to be done; the contract makes their calls
idempotent.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from actors.devices.dra.claim_cache import ClaimCache, required_drivers
from actors.devices.dra.claim_checkpoint import ClaimWriter
from actors.devices.dra.driver_instance import ClaimsOutcome, failed_outcome
from actors.devices.dra.driver_registry import DriverRegistry
from actors.devices.dra.errors import ClaimUnprepared, PreparationAborted
from actors.devices.dra.metrics import DraMetrics
from actors.devices.dra.types import DraLimits
from protocols.errors import NodeplaneError
from protocols.lifecycle.devices.types import ClaimInfo
from protocols.messages.devices import PrepareClaims
from protocols.process.rates import backoff_delay
from protocols.process.tasks import Tasks, cancel, restarted, shared
from protocols.trace import span


class KeyedLocks:
    """Locks by name, which exist while somebody holds or awaits them."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def hold(self, names: Iterable[str]) -> AsyncIterator[None]:
        """Hold all locks. They are acquired in sorted order, so that no two holders wait for each other."""
        mine, held = sorted(set(names)), []
        for name in mine:
            self._users[name] = self._users.get(name, 0) + 1
        try:
            for name in mine:
                await self._locks.setdefault(name, asyncio.Lock()).acquire()
                held.append(name)
            yield
        finally:
            for name in held:
                self._locks[name].release()
            for name in mine:
                self._leave(name)

    def _leave(self, name: str) -> None:
        self._users[name] -= 1
        if not self._users[name]:
            del self._users[name]
            self._locks.pop(name, None)


class ClaimPreparerOptions(msgspec.Struct, frozen=True):
    """Parts of the DRA manager that prepare claims."""

    cache: ClaimCache
    drivers: DriverRegistry
    writer: ClaimWriter
    metrics: DraMetrics


class ClaimPreparer:
    """Prepares and unprepares; a repeated request of a pod joins the task of the first."""

    def __init__(self, options: ClaimPreparerOptions) -> None:
        self._options = options
        self._in_progress: dict[str, asyncio.Task[None]] = {}
        self._locks = KeyedLocks()

    async def prepare(self, requested: PrepareClaims) -> dict[str, ClaimInfo]:
        """Prepare the pod's claims and return them by the pod's names for them.

        Raises the error that the pod reports.
        """
        if not requested.renew:
            return self._prepared_claims(requested)
        task = self._in_progress.get(requested.uid)
        if task is None:
            task = shared(self._prepare(requested), "claim preparation", requested.uid)
            self._in_progress[requested.uid] = task
            task.add_done_callback(lambda done: self._on_done(requested.uid, done))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                text = f"pod {requested.namespace}/{requested.name} or the device manager is ending"
                raise PreparationAborted(text) from None
            raise
        return self._prepared_claims(requested)

    async def unprepare(self, uid: str) -> None:
        """Return once every driver has durably unprepared the pod's claims.

        Raises DriverMissing or DriverFailed: try again.
        """
        task = self._in_progress.get(uid)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if not self._options.cache.of_pod(uid):
            await self._options.writer.settle()  # an earlier call may have failed to write
            return
        with self._options.metrics.operation("UnprepareResources"), span(uid, "unprepare claims"):
            async with self._locks.hold(claim.key for claim in self._options.cache.of_pod(uid)):
                await self._unprepare(uid)

    async def close(self) -> None:
        """Abort preparations: they would call drivers whose connections are closed next."""
        await cancel(*self._in_progress.values())

    def _prepared_claims(self, requested: PrepareClaims) -> dict[str, ClaimInfo]:
        """Return the claims as they are, from this process or a checkpoint. Raises ClaimUnprepared."""
        claims: dict[str, ClaimInfo] = {}
        for item in requested.claims:
            claim = self._options.cache.claims.get(f"{item.namespace}/{item.name}")
            ready = claim is not None and requested.uid in claim.pods and (claim.done or any(claim.drivers.values()))
            if claim is None or not ready:
                raise ClaimUnprepared(f"ResourceClaim {item.name} is not prepared for pod {requested.name}")
            claims[item.entry] = claim
        return claims

    async def _prepare(self, requested: PrepareClaims) -> None:
        with self._options.metrics.operation("PrepareResources"), span(requested.uid, "prepare claims"):
            for driver in required_drivers(requested.claims):
                self._options.drivers.serving(driver)
            async with self._locks.hold(f"{item.namespace}/{item.name}" for item in requested.claims):
                for item in requested.claims:
                    self._options.cache.check(item)
                claims = [self._options.cache.add(requested.uid, item) for item in requested.claims]
                await self._options.writer.write()
                await self._call_drivers(claims, f"{requested.namespace}/{requested.name}")

    async def _call_drivers(self, claims: Sequence[ClaimInfo], pod: str) -> None:
        """Call each driver once with all its pending claims; concurrently, so that none waits for one that hangs."""
        work: dict[str, list[ClaimInfo]] = {}
        for claim in {claim.key: claim for claim in claims}.values():
            for driver in sorted(claim.drivers.keys() - claim.prepared):
                work.setdefault(driver, []).append(claim)
        if not work:
            return
        outcomes = await asyncio.gather(*(self._prepare_with(driver, work[driver], pod) for driver in sorted(work)))
        await self._options.writer.write()
        raise_first(outcomes)

    async def _prepare_with(self, driver: str, claims: list[ClaimInfo], pod: str) -> ClaimsOutcome:
        try:
            outcome = await self._options.drivers.serving(driver).prepare(claims, pod)
        except NodeplaneError as error:
            return failed_outcome(str(error))
        for claim in claims:
            if claim.uid in outcome.done:
                self._options.cache.prepared(claim, driver, outcome.done[claim.uid])
        return outcome

    async def _unprepare(self, uid: str) -> None:
        claims = self._options.cache.remove_pod(uid)
        work: dict[str, list[ClaimInfo]] = {}
        for claim in claims:
            for driver in sorted(claim.drivers):
                work.setdefault(driver, []).append(claim)
        outcomes = await asyncio.gather(
            *(self._unprepare_with(driver, work[driver], f"pod {uid}") for driver in sorted(work))
        )
        for claim in claims:
            if not claim.drivers:
                self._options.cache.remove(claim)
        await self._options.writer.write()
        raise_first(outcomes)

    async def _unprepare_with(self, driver: str, claims: list[ClaimInfo], pod: str) -> ClaimsOutcome:
        for claim in claims:  # before the call: whatever ends the wait for the answer, the driver may have obeyed
            claim.prepared.discard(driver)
        try:
            outcome = await self._options.drivers.serving(driver).unprepare(claims, pod)
        except NodeplaneError as error:
            outcome = failed_outcome("")
            outcome.error = error
        for claim in claims:
            if claim.uid in outcome.done:
                claim.drivers.pop(driver, None)
        return outcome

    def _on_done(self, uid: str, task: "asyncio.Task[None]") -> None:
        del self._in_progress[uid]
        if not task.cancelled():
            task.exception()  # retrieved, since no waiter may be left


def raise_first(outcomes: Iterable[ClaimsOutcome]) -> None:
    """Raise the error of the first outcome that has one."""
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error


class OrphanCleanerOptions(msgspec.Struct, frozen=True):
    """Claims that may be orphaned, and how they are unprepared."""

    pods: Callable[[], set[str]]
    """Returns the uids of all pods with claims."""
    unprepare: Callable[[str], Awaitable[None]]
    limits: DraLimits
    log: logging.Logger


class OrphanCleaner:
    """Unprepares the claims of pods that nobody requests any more, such as those deleted meanwhile."""

    def __init__(self, options: OrphanCleanerOptions) -> None:
        self._options = options
        self._requested_at: dict[str, float] = {}
        self._owner = Tasks()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def requested(self, uid: str) -> None:
        """Record that the pod's claims were requested, so it exists, and cancel its cleanup."""
        self._requested_at[uid] = time.monotonic()
        task = self._tasks.pop(uid, None)
        if task is not None:
            task.cancel()

    def ended(self, uid: str) -> None:
        self._requested_at.pop(uid, None)

    def reconcile(self, active: set[str]) -> None:
        """Unprepare the claims of pods that are not in `active`, in the background.

        Call it only once all pod sources have synced. A pod whose claims were requested lately is skipped: it may be
        newer than the list.
        """
        fresh = time.monotonic() - self._options.limits.fresh
        for uid in self._options.pods() - active - self._tasks.keys():
            if self._requested_at.get(uid, float("-inf")) < fresh:
                work = restarted(partial(self._unprepare_orphan, uid), "claims of a deleted pod", uid)
                task = self._owner.start(work, "claims of a deleted pod", uid)
                self._tasks[uid] = task
                task.add_done_callback(lambda done, uid=uid: self._forget(uid, done))  # type: ignore[misc]  # the default binds this iteration's uid

    def _forget(self, uid: str, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(uid) is task:
            del self._tasks[uid]

    async def _unprepare_orphan(self, uid: str) -> None:
        limits, logged, failures = self._options.limits, "", 0
        while True:
            try:
                await self._options.unprepare(uid)
            except NodeplaneError as error:
                if logged != str(error):
                    self._options.log.warning("cannot unprepare claims of deleted pod uid=%s error=%s", uid, error)
                logged = str(error)
            else:
                self._options.log.info("claims of deleted pod unprepared uid=%s", uid)
                return self.ended(uid)
            failures += 1
            await asyncio.sleep(backoff_delay(failures, limits.retry_first, limits.retry_max))

    def close(self) -> None:
        self._owner.cancel()
