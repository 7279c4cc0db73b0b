"""The worker of one pod: a task that syncs the pod whenever something about it may have changed.

A resync is skipped while nothing that a sync depends on has changed. What a sync does follows from these inputs and the
time; a pod that waits for a time has a timer. The resync exists for what should not happen (a lost wake-up, a bug), so
now and then one is not skipped, although it costs a hundred times as much as the comparison.
"""

import asyncio
import logging
import operator
import random
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec

from actors.podworker.model.dependencies import Dependencies
from actors.podworker.pods.containers.killer import Killer
from actors.podworker.pods.probes.prober import PodProbes
from actors.podworker.pods.volumes.sources import Source, Versions
from actors.podworker.pods.workers.context import PodState, RuntimeObserver, StatusReporter, WorkerContext
from actors.podworker.pods.workers.metrics import PodMetrics, PodTimer
from actors.podworker.pods.workers.sync import PodSync
from actors.podworker.pods.workers.termination import PodTermination
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.lifecycle.node.room import NodeRoom
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.stages import Facts, advance
from protocols.lifecycle.pods.types import SECOND, PodSpec, PodStage, read_pod
from protocols.lifecycle.status.conditions import PREEMPTED
from protocols.lifecycle.status.events import sync_failed
from protocols.messages.health import PodResourceStatus
from protocols.process.rates import TokenBucket, backoff_delay
from protocols.process.tasks import awaited

MAX_SKIPPED = 40
"""Upper bound of resyncs skipped in a row, about half an hour.

Random per pod, so that pods created together diverge.
"""
BURST, RATE = 3.0, 0.2
"""Three repairs at once, then one per 5 s; upstream's kubelet syncs each 10 s."""
RESYNC_S = 60.0
SLOT_S = 2.0
"""Timers end at multiples of this, so that many pods share a wake-up."""
RETRY_FIRST_S, RETRY_MOST_S = 0.1, 10.0
EVENT_AFTER_S, EVENT_AGAIN_S = 1.5, 30.0
"""A pod that fails for this long records an event, and again after the second time."""
log = logging.getLogger("podworker")


class ResyncSuppression:
    """Lets periodic syncs of a pod pass without work while nothing about it has changed."""

    def __init__(self) -> None:
        self._seen: tuple[Any, ...] = ()
        self._current: tuple[Any, ...] = ()
        self._skips_left = 0

    @property
    def idle(self) -> bool:
        """True if the last sync found nothing to do and nothing to wait for."""
        return bool(self._seen)

    def begin(self, inputs: tuple[Any, ...]) -> None:
        """Begin a sync with these inputs. Changes during the sync cause another one."""
        self._current = inputs

    def end(self, idle: bool) -> None:
        """End the sync. Not `idle`: there is more to do, or to wait for."""
        self._seen = self._current if idle else ()
        self._skips_left = random.randint(MAX_SKIPPED // 2, MAX_SKIPPED)

    def replace(self, old: object, new: object) -> None:
        """Exchange an input for an object that makes no difference to a sync."""
        self._seen = tuple(new if seen is old else seen for seen in self._seen)
        self._current = tuple(new if current is old else current for current in self._current)

    def skip(self, inputs: tuple[Any, ...]) -> bool:
        """Return True, and count it, if a resync may be skipped.

        Inputs are compared by identity, since each is replaced when it changes.
        """
        same = bool(self._seen) and all(map(operator.is_, self._seen, inputs))
        if not same or not self._skips_left:
            return False
        self._skips_left -= 1
        return True


class StatusRepair:
    """Rate limit for syncs after another writer changed a pod's status.

    `sync` is called once for all requests before it.
    """

    def __init__(self, sync: Callable[[], None]) -> None:
        self._sync = sync
        self._limiter: TokenBucket | None = None
        self._timer: asyncio.TimerHandle | None = None

    def request(self) -> None:
        now = time.monotonic()
        self._limiter = self._limiter or TokenBucket(RATE, BURST, BURST, now)
        if self._timer is None:
            delay = max(0.0, self._limiter.ready(now) - now)
            self._timer = asyncio.get_running_loop().call_later(delay, self._due)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        if self._limiter is not None:
            self._limiter.take(time.monotonic())
        self._sync()


def resync_in(now: float) -> float:
    """Return seconds until the resync of a pod that is not idle: 60 to 90, ending at a slot."""
    at = now + RESYNC_S * random.uniform(1.0, 1.5)
    return at - at % SLOT_S + SLOT_S - now


class WorkerOptions(msgspec.Struct, frozen=True):
    """A pod to run."""

    spec: PodSpec
    deps: Dependencies
    runtime_name: Callable[[], str]
    gone: bool = False
    """True for orphans: the runtime has the pod, the API does not."""
    fence_ns: int = 0
    """See RuntimeObserver."""
    clock: Callable[[], int] = time.time_ns
    metrics: PodMetrics | None = None
    room: NodeRoom = msgspec.field(default_factory=NodeRoom)
    """Shared by the workers of the node."""
    preempt: Callable[[str], None] = lambda uid: None
    """Ends the pod of a uid for a critical one."""


class PodWorker:
    """Owns the task of the pod; `wake` lets it sync soon."""

    def __init__(self, options: WorkerOptions) -> None:
        self.state = PodState(options.spec, gone=options.gone)
        deps, clock = options.deps, options.clock
        self._observer = RuntimeObserver(options.spec.uid, deps.pleg, clock, options.fence_ns)
        self._probes = PodProbes(deps, lambda: self.state.spec, clock, self.wake)
        self._killer = Killer(deps, self._stopped)
        reporter = StatusReporter(deps, clock, options.runtime_name, self._probes)
        context = WorkerContext(
            self.state, deps, self._observer, reporter, self._killer, self._probes, options.room, options.preempt
        )
        self._pod_sync = PodSync(context, clock)
        self._termination = PodTermination(context)
        self._suppression = ResyncSuppression()
        self._repair = StatusRepair(self.wake)
        self._clock = clock
        self._deps = deps
        self._woken = asyncio.Event()
        self._woken.set()
        self._step: asyncio.Task[None] | None = None
        self._pod_timer = PodTimer(options.metrics, (options.spec.raw.get("status") or {}).get("phase") or "")
        self._failures = 0
        self._began = self._healthy_since = time.monotonic()
        self._event_at = float("-inf")
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def sources(self) -> Iterable[Source]:
        """Return the objects that the volumes of a pod project until it ends."""
        return self._pod_sync.volumes.sources if self.state.stage is PodStage.SYNCING else ()

    def outdated(self, versions: Versions) -> bool:
        """Return True if the next sync is to update the files of the pod's volumes, see Volumes."""
        return self.state.stage is PodStage.SYNCING and self._pod_sync.volumes.outdated(versions)

    # notifications

    def wake(self) -> None:
        self._woken.set()

    def runtime_changed(self) -> None:
        """The stream has another status of the pod."""
        self._observer.moved()
        self.wake()

    def update(self, pod: views.Pod, own_change: bool = False) -> None:
        """Take a newer object from the API. `own_change`: it differs only by our own status."""
        before, self.state.spec = self.state.spec, read_pod(pod)
        if own_change:
            self._suppression.replace(before, self.state.spec)
            if self._deps.statuses.overwritten(self.state.spec):
                self._repair.request()
        if self.state.spec.deleting:
            self._interrupt()
        if not own_change:
            self.state.pauses.clear()
            self._pod_timer.updated()
            self.wake()

    def removed_from_api(self, immediate: bool = True) -> None:
        """End the pod because its source no longer has it. `immediate`: within a second, since nobody waits for it."""
        if not self.state.gone:
            self.state.gone = True
            if immediate:
                self.state.spec = msgspec.structs.replace(self.state.spec, grace=1)
            self._interrupt()
            self.wake()

    def expire_volumes(self) -> None:
        """See Volumes."""
        self._pod_sync.volumes.expire()

    def preempt(self) -> None:
        """End the pod as Failed, because a critical one needs its room."""
        if self.state.ended_early is None and self.state.stage is PodStage.SYNCING:
            self.state.ended_early = PREEMPTED
            self._deps.recorder.pod(self.state.spec, "Warning", PREEMPTED.reason, PREEMPTED.message)
            self._interrupt()
            self.wake()

    def resync(self) -> None:
        """Sync an idle pod if an input has changed, and now and then anyway."""
        if self._suppression.idle and not self._suppression.skip(self._inputs()):
            self.wake()

    def lost(self) -> None:
        """Query pleg, whose stream dropped the pod: it is gone, or pleg has just started."""
        self._observer.mutated()
        self.wake()

    def set_device_health(self, status: PodResourceStatus | None) -> None:
        """Set the device health. A pod that is ending retains the last one if there is none any more."""
        if status is not None or self.state.stage is PodStage.SYNCING:
            self.state.resources = status
            self.wake()

    def readmit(self) -> None:
        """Admit the pod again; it is granted what it had."""
        self.state.grants = self.state.claims = None
        self.wake()

    async def remains(self) -> bool:
        """Return True if the runtime made something of the pod after it was asked last, or may have."""
        if not runtime_status.occupies(self._observer.known()):
            return False
        try:  # the stream may be late, and after a step of the clock its time says nothing
            return runtime_status.occupies(await self._observer.status())
        except NodeplaneError:
            return True

    def retry(self) -> None:
        """Retry now: something that may have caused the failure is back."""
        if self.state.pauses.clear() or self._failures:
            self._pod_sync.wait(0.0)
            self.wake()

    # task

    async def run(self) -> None:
        try:
            while self.state.stage is not PodStage.FINISHED:
                self._set_timer()
                await self._woken.wait()
                self._stop_timer()
                await self._guarded_step()
        finally:
            self._stop_timer()
            self._repair.cancel()
            self._killer.cancel()
            self._probes.close()
            self._pod_sync.close()

    def _set_timer(self) -> None:
        """Set the resync timer. Idle pods need none: the manager resyncs them."""
        self._stop_timer()
        if self._due or not self._suppression.idle:
            delay = max(0.0, self._due - time.monotonic()) if self._due else resync_in(time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self.wake)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _inputs(self) -> tuple[object, ...]:
        health, state = self._deps.health, self.state
        return (self._observer.known(), state.spec, state.resources, state.stage, health.enabled, health.synced)

    async def _guarded_step(self) -> None:
        self._woken.clear()
        self._due, stage = 0.0, self.state.stage
        self._began = time.monotonic()
        self._suppression.begin(self._inputs())
        self._pod_timer.begin()
        self._step = awaited(self._run_stage())
        try:
            await asyncio.wait((self._step,))
        except asyncio.CancelledError:
            self._step.cancel()
            raise
        self._pod_timer.end(stage, self.state.published)
        if self.state.rejected is not None:
            self._pod_timer.rejected(self.state.rejected.reason)
        if self._step.cancelled():  # interrupted: its last change may have happened
            self._observer.mutated()
            self.wake()
        elif error := self._step.exception():
            self._failed(error)
        elif not self._pod_sync.held_back:
            self._failures = 0
        self._suppression.end(self.state.stage is PodStage.SYNCING and self._pod_sync.idle and not self._failures)

    async def _run_stage(self) -> None:
        stage, state = self.state.stage, self.state
        facts = Facts(deleting=state.spec.deleting, gone=state.gone)
        if stage is PodStage.SYNCING:
            finished = await self._pod_sync.sync()
            facts = Facts(deleting=state.spec.deleting, gone=state.gone, finished=finished)
        elif stage is PodStage.TERMINATING:
            dead = await self._termination.terminate()
            facts = msgspec.structs.replace(facts, alive=not dead, released=state.released)
        elif stage is PodStage.TERMINATED:
            self._pod_sync.close()  # an update of its volumes would make their directories again
            facts = msgspec.structs.replace(facts, removed=await self._termination.clean_up())
        state.stage = advance(stage, facts)
        self._schedule(stage)

    def _schedule(self, before: PodStage) -> None:
        if self.state.stage is not before or (before is PodStage.SYNCING and self._pod_sync.acted):
            self.wake()
        elif before is PodStage.SYNCING and self._pod_sync.wake_ns:
            self._due = time.monotonic() + max(0.0, (self._pod_sync.wake_ns - self._clock()) / SECOND)

    def _failed(self, error: BaseException) -> None:
        """Back off after an error; one that is neither of ours nor of a file is a bug, logged with its traceback."""
        spec = self.state.spec
        self._healthy_since = self._healthy_since if self._failures else self._began
        self._failures += 1
        self._record_failure(error)
        delay = backoff_delay(self._failures, RETRY_FIRST_S, RETRY_MOST_S)
        if not isinstance(error, (NodeplaneError, OSError)):
            log.error("pod sync failed pod=%s/%s error=%r", spec.namespace, spec.name, error, exc_info=error)
            delay = RETRY_MOST_S
        elif self._failures in (1, 8):
            log.warning(
                "pod sync failed pod=%s/%s retry_seconds=%.1f error=%s", spec.namespace, spec.name, delay, error
            )
        self._due = time.monotonic() + delay
        self._pod_sync.wait(delay)

    def _record_failure(self, error: BaseException) -> None:
        now = time.monotonic()
        if now - self._healthy_since >= EVENT_AFTER_S and now - self._event_at >= EVENT_AGAIN_S:
            self._event_at = now
            self._deps.recorder.pod(self.state.spec, *sync_failed(error))

    def _stopped(self, container_id: str, good: bool) -> None:
        """Observe the runtime again after a StopContainer call."""
        if good:
            self._observer.changed(partial(runtime_status.shows_exit, container_id))
        else:
            self._observer.mutated()
        self.wake()

    def _interrupt(self) -> None:
        """Cancel a sync that waits for something, because the pod is to end."""
        if self.state.stage is PodStage.SYNCING and self._step is not None and not self._step.done():
            self._step.cancel()
