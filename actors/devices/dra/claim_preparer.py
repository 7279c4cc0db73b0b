"""One lock per name, kept only while somebody holds it or waits for it."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from actors.devices.dra.claim_cache import ClaimCache, wanted_drivers
from actors.devices.dra.claim_checkpoint import Keeping
from actors.devices.dra.driver_instance import Outcome, failed
from actors.devices.dra.driver_registry import Drivers
from actors.devices.dra.errors import ClaimUnprepared, PreparationAborted
from actors.devices.dra.metrics import DraMetrics
from actors.devices.dra.types import ClaimInfo, DraLimits
from protocols.errors import NodeplaneError
from protocols.messages.devices import PrepareClaims


class Locks:
    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def hold(self, names: Iterable[str]) -> AsyncIterator[None]:
        """All of them, always in the same order, so nobody waits in a circle."""
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


@dataclass(frozen=True)
class PreparingOptions:
    cache: ClaimCache
    drivers: Drivers
    keeping: Keeping
    metrics: DraMetrics


class Preparing:
    def __init__(self, options: PreparingOptions) -> None:
        self._options = options
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._locks = Locks()

    async def prepare(self, asked: PrepareClaims) -> dict[str, ClaimInfo]:
        """The pod's claims by its own names for them, all usable. Raises what the pod is to be told."""
        if not asked.renew:
            return self._known(asked)
        task = self._under_way.get(asked.uid)
        if task is None:
            task = asyncio.create_task(self._prepare(asked), name=f"prepare {asked.uid}")
            self._under_way[asked.uid] = task
            task.add_done_callback(lambda done: self._end(asked.uid, done))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise PreparationAborted(f"pod {asked.namespace}/{asked.name} is ending") from None
            raise
        return self._known(asked)

    async def unprepare(self, uid: str) -> None:
        """Nothing of the pod is left with any driver, durably. Raises DriverMissing or DriverFailed: try again."""
        task = self._under_way.get(uid)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if not self._options.cache.of_pod(uid):
            return
        with self._options.metrics.operation("UnprepareResources"):
            async with self._locks.hold(claim.key for claim in self._options.cache.of_pod(uid)):
                await self._unprepare(uid)

    def _known(self, asked: PrepareClaims) -> dict[str, ClaimInfo]:
        """From what is there, of this life or an earlier one; raises ClaimUnprepared."""
        found: dict[str, ClaimInfo] = {}
        for item in asked.claims:
            claim = self._options.cache.claims.get(f"{item.namespace}/{item.name}")
            ready = claim is not None and asked.uid in claim.pods and (claim.done or any(claim.drivers.values()))
            if claim is None or not ready:
                raise ClaimUnprepared(f"ResourceClaim {item.name} is not prepared for pod {asked.name}")
            found[item.entry] = claim
        return found

    async def _prepare(self, asked: PrepareClaims) -> None:
        with self._options.metrics.operation("PrepareResources"):
            for driver in wanted_drivers(asked.claims):
                self._options.drivers.serving(driver)
            async with self._locks.hold(f"{item.namespace}/{item.name}" for item in asked.claims):
                for item in asked.claims:
                    self._options.cache.check(item)
                claims = [self._options.cache.enter(asked.uid, item) for item in asked.claims]
                await self._options.keeping.durable()
                await self._ask_drivers(claims)

    async def _ask_drivers(self, claims: Sequence[ClaimInfo]) -> None:
        """Each driver once, with all that it has not done yet; all at once, so none waits for one that hangs."""
        work: dict[str, list[ClaimInfo]] = {}
        for claim in {claim.key: claim for claim in claims}.values():
            for driver in sorted(claim.drivers.keys() - claim.prepared):
                work.setdefault(driver, []).append(claim)
        if not work:
            return
        outcomes = await asyncio.gather(*(self._prepare_with(driver, work[driver]) for driver in sorted(work)))
        await self._options.keeping.durable()
        raise_first(outcomes)

    async def _prepare_with(self, driver: str, claims: list[ClaimInfo]) -> Outcome:
        try:
            outcome = await self._options.drivers.serving(driver).prepare(claims)
        except NodeplaneError as error:
            return failed(str(error))
        for claim in claims:
            if claim.uid in outcome.done:
                self._options.cache.prepared(claim, driver, outcome.done[claim.uid])
        return outcome

    async def _unprepare(self, uid: str) -> None:
        claims = self._options.cache.leave(uid)
        work: dict[str, list[ClaimInfo]] = {}
        for claim in claims:
            for driver in sorted(claim.drivers):
                work.setdefault(driver, []).append(claim)
        outcomes = await asyncio.gather(*(self._unprepare_with(driver, work[driver]) for driver in sorted(work)))
        for claim in claims:
            if not claim.drivers:
                self._options.cache.gone(claim)
        await self._options.keeping.durable()
        raise_first(outcomes)

    async def _unprepare_with(self, driver: str, claims: list[ClaimInfo]) -> Outcome:
        """A driver that has let go is not asked again."""
        try:
            outcome = await self._options.drivers.serving(driver).unprepare(claims)
        except NodeplaneError as error:
            outcome = failed("")
            outcome.error = error
        for claim in claims:
            claim.prepared.discard(driver)
            if claim.uid in outcome.done:
                claim.drivers.pop(driver, None)
        return outcome

    def _end(self, uid: str, task: "asyncio.Task[None]") -> None:
        del self._under_way[uid]
        if not task.cancelled():
            task.exception()  # its waiters have it; none of them may be left


def raise_first(outcomes: Iterable[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error


@dataclass(frozen=True)
class StrangersOptions:
    pods: Callable[[], set[str]]
    """Uids of all pods that claims are kept for."""
    unprepare: Callable[[str], Awaitable[None]]
    limits: DraLimits
    log: logging.Logger


class Strangers:
    def __init__(self, options: StrangersOptions) -> None:
        self._options = options
        self._asked: dict[str, float] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def wanted(self, uid: str) -> None:
        """The pod's claims are asked for: it lives."""
        self._asked[uid] = time.monotonic()
        task = self._tasks.pop(uid, None)
        if task is not None:
            task.cancel()

    def ended(self, uid: str) -> None:
        self._asked.pop(uid, None)

    def reconcile(self, active: set[str]) -> None:
        """Only right once pod sources have synced. A list may have been overtaken by a pod that came since."""
        fresh = time.monotonic() - self._options.limits.fresh
        for uid in self._options.pods() - active - self._tasks.keys():
            if self._asked.get(uid, float("-inf")) < fresh:
                task = asyncio.create_task(self._give_back(uid), name=f"give back {uid}")
                self._tasks[uid] = task
                task.add_done_callback(lambda done, uid=uid: self._forget(uid, done))  # type: ignore[misc]  # the default binds this turn's uid

    def _forget(self, uid: str, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(uid) is task:
            del self._tasks[uid]

    async def _give_back(self, uid: str) -> None:
        pause, told = self._options.limits.retry_first, ""
        while True:
            try:
                await self._options.unprepare(uid)
            except NodeplaneError as error:
                if told != str(error):
                    self._options.log.warning("claims of pod %s, which is gone, not given back yet: %s", uid, error)
                told = str(error)
            else:
                self._options.log.info("claims of pod %s, which is gone, are given back", uid)
                return self.ended(uid)
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._options.limits.retry_most)

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
