"""The binding cycle, many at once: write allocations, wait for devices that are prepared late, bind."""

import asyncio
import time

from actors.scheduler.cycles.binder import REASON_ERROR
from actors.scheduler.cycles.failed_attempts import FailedAttempts
from actors.scheduler.cycles.metrics import SCHEDULED
from actors.scheduler.cycles.scheduling_cycle import SchedulingDecision
from actors.scheduler.cycles.shared import Shared
from actors.scheduler.model.claim_demand import DEVICES, Assignment, claim_topic
from actors.scheduler.model.errors import (
    BindingFailed,
    ClaimChanged,
    DeviceConflict,
    WaitPreempted,
)
from actors.scheduler.model.queue import ROOM
from protocols.dra.binding import FAILED, READY
from protocols.kube.meta import key_of, uid_of
from protocols.kubeclient.client import ApiAway, ApiError
from protocols.trace import span

REPORTED_CODES = (403, 422)
"""Codes reported to users: retries alone will not help."""


class BindingCycle:
    """Carries decisions out; a failed one is undone, and its pod queued again."""

    def __init__(self, shared: Shared, failed: FailedAttempts) -> None:
        self._cache, self._queue, self._binder = shared.cache, shared.queue, shared.binder
        self._devices, self._metrics, self._log = shared.devices, shared.metrics, shared.log
        self._wake = shared.wake
        self._failed = failed

    async def run(self, decision: SchedulingDecision, slots: asyncio.Semaphore) -> bool:
        """Run the binding cycle. Return False if the pod must be scheduled again.

        The slot is given to others while devices of the pod are prepared.
        """
        pod = decision.pod
        written: tuple[Assignment, ...] = ()
        try:
            written = await self._assign(decision)
            await self._prepared(decision, written, slots)
            await self._bind(decision, written)
        except WaitPreempted as preempted:
            await self._give_way(decision, preempted)
            return False
        except BindingFailed as failure:
            await self._not_prepared(decision, written, failure)
            return False
        except (ApiAway, ApiError, ClaimChanged, DeviceConflict, TimeoutError) as error:
            self._failed.retry(pod, error, decision.began)
            if isinstance(error, ApiError) and error.code in REPORTED_CODES:
                await self._failed.report(pod, str(error), REASON_ERROR)
            return False
        self._metrics.attempt(SCHEDULED, time.monotonic() - decision.began)
        return True

    async def _assign(self, decision: SchedulingDecision) -> tuple[Assignment, ...]:
        if not decision.assignments:
            return ()
        claims = sum(assignment.allocation is not None for assignment in decision.assignments)
        result = "overtaken"
        try:
            with span(decision.view.uid, "allocate claims", node=decision.node, claims=claims):
                written = await self._devices.assign(decision.pod, decision.assignments)
            result = "done"
        except DeviceConflict:
            result = "contested"
            raise
        finally:
            if result != "done":
                self._cache.forget(decision.view.uid)
                claims_left = (claim_topic(assignment.key) for assignment in decision.assignments)
                self._queue.changed(ROOM, DEVICES, *claims_left)
            self._metrics.allocated(result, claims)
        return written

    async def _prepared(
        self, decision: SchedulingDecision, written: tuple[Assignment, ...], slots: asyncio.Semaphore
    ) -> None:
        """Wait for devices with binding conditions. Raises BindingFailed, WaitPreempted or ClaimChanged."""
        if not self._devices.binding.is_needed(written):
            return
        self._binder.report_preparing(decision.pod, decision.node)
        if all(
            assignment.allocation is None for assignment in decision.assignments
        ):  # known by its claims, placed only now
            self._queue.changed(DEVICES)  # a pod of higher priority may preempt it
            self._wake()
        slots.release()
        result = FAILED
        try:
            with span(decision.view.uid, "binding conditions"):
                await self._devices.binding.wait(decision.pod, written)
            result = READY
        finally:
            await slots.acquire()
            self._metrics.waited(result)
            if result != READY:
                self._cache.forget(decision.view.uid)
                self._queue.changed(ROOM)

    async def _not_prepared(
        self, decision: SchedulingDecision, written: tuple[Assignment, ...], failure: BindingFailed
    ) -> None:
        """Deallocate what failed. The next attempt tries elsewhere; should the API be away, it deallocates as well."""
        pod = decision.pod
        self._devices.binding.node_failed(uid_of(pod), decision.node)
        try:
            await self._devices.release_failed(pod, (assignment.key for assignment in written))
        except (ApiAway, ApiError) as error:
            self._log.info("claims stay allocated for now pod=%s error=%s", key_of(pod), error)
        self._failed.retry(pod, failure, decision.began)
        await self._failed.report(pod, f'running PreBind plugin "DynamicResources": {failure}', REASON_ERROR)

    async def _give_way(self, decision: SchedulingDecision, preempted: WaitPreempted) -> None:
        """Release the claims of a pod that is preempted before it is bound, and queue it again."""
        try:
            await self._devices.leave(decision.pod, (assignment.key for assignment in decision.assignments))
        except (ApiAway, ApiError, TimeoutError) as error:
            self._log.info("claims stay allocated for now pod=%s error=%s", key_of(decision.pod), error)
        finally:
            self._devices.binding.gave_way(decision.view.uid)
        self._failed.retry(decision.pod, preempted, decision.began)

    async def _bind(self, decision: SchedulingDecision, written: tuple[Assignment, ...]) -> None:
        """Bind the pod if its claims are as written.

        Only a definite rejection ends the assumption. After 409 (bound already, or just changed) and after silence it
        stands until the informer shows the pod, or the next attempt.
        """
        view, node = decision.view, decision.node
        try:
            with span(view.uid, "bind", node=node):
                await self._binder.bind(decision.pod, node, (assignment.key for assignment in written))
        except ApiError as error:
            if error.code != 409 and self._cache.forget(view.uid):
                self._queue.changed(ROOM)
            raise
        self._queue.remove(view.uid)
        self._devices.binding.bound(view.uid)
