"""Shared parts of one pod's worker: its state, the observer of the runtime and the status reporter."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from actors.podworker.model.dependencies import Dependencies, Pleg
from actors.podworker.model.errors import PodStatusUnknown
from actors.podworker.pods.containers.killer import Killer
from actors.podworker.pods.containers.termination_messages import TerminationMessages
from actors.podworker.pods.probes.prober import PodProbes
from protocols.kinds import views
from protocols.lifecycle.node.room import NodeRoom
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.claims import uses_claims
from protocols.lifecycle.pods.resources import Sizes
from protocols.lifecycle.pods.types import BackoffEntry, PodSpec, PodStage, StartFailure, Waiting
from protocols.lifecycle.restarts.backoff import Pauses
from protocols.lifecycle.status.device_health import Retention
from protocols.lifecycle.status.pod import StatusInputs, compute_status, overlay
from protocols.messages.devices import ContainerGrant
from protocols.messages.health import PodHeld, PodResourceStatus
from protocols.messages.pleg import STEP_NS, PodStatus

EFFECT_S = 0.25
"""Longest wait for the events of a successful call; then pleg inspects the pod."""
Effect = Callable[[PodStatus], bool]
"""True for a status that shows what a call did."""


class PodState(msgspec.Struct):
    """State of a pod, lost with this process unless API or runtime have it."""

    spec: PodSpec
    stage: PodStage = PodStage.SYNCING
    gone: bool = False
    """The API no longer has the pod."""
    published: views.PodStatus = msgspec.field(default_factory=views.PodStatus)
    """The status published last."""
    problems: dict[str, Waiting] = msgspec.field(default_factory=dict)
    """Reasons why containers could not be created, until they can."""
    hook_failures: dict[str, Waiting] = msgspec.field(default_factory=dict)
    """Failures of postStart hooks by container name, until its next start."""
    failed_starts: dict[str, StartFailure] = msgspec.field(default_factory=dict)
    """By container id."""
    pauses: Pauses = msgspec.field(default_factory=Pauses)
    """Pauses before failed sandboxes and containers are retried."""
    backoffs: dict[str, BackoffEntry] | None = None
    """Crash back-off by container name; None until the pod's history was read."""
    grants: dict[str, ContainerGrant] | None = None
    """Grants by container; None before admission."""
    claims: dict[str, tuple[str, ...]] | None = None
    """CDI names by container; None until the claims are known to be prepared."""
    rejected: Waiting | None = None
    ended_early: Waiting | None = None
    """Reason to end the pod as Failed: it was active too long, or preempted."""
    released: bool = False
    deleted: bool = False
    """The final API delete succeeded."""
    resources: PodResourceStatus | None = None
    held: PodHeld = msgspec.field(default_factory=PodHeld)
    """Devices that the pod held when it began to end."""
    sizes: Sizes = msgspec.field(default_factory=Sizes)
    replaced: set[str] = msgspec.field(default_factory=set)
    """Ids of containers that were killed to be started again, whatever their exit code."""
    announced: set[str] = msgspec.field(default_factory=set)
    """Ids of ended containers whose back-off was recorded as an event."""


class RuntimeObserver:
    """`fence_ns`: end of possible changes by an earlier incarnation of this process; 0 = there was none."""

    def __init__(self, uid: str, pleg: Pleg, clock: Callable[[], int], fence_ns: int = 0) -> None:
        self._uid = uid
        self._pleg = pleg
        self._clock = clock
        self._fence_ns = fence_ns
        self._min_ns = 0
        self._confirmed: PodStatus | None = None
        self._ahead_ns = clock() - time.monotonic_ns()
        """By how much the clock was ahead of the monotonic one when it was read last."""
        self._effects: list[Effect] = []
        self._moved = asyncio.Event()

    def mutated(self) -> None:
        """Require a newer status: the runtime was or may have been changed, or the stream lost the pod."""
        self._min_ns = max(self._obey_clock(), self._min_ns + 1)
        self._confirmed = None
        self._effects.clear()
        self._moved.set()

    def changed(self, effect: Effect) -> None:
        """Require a status that shows what a successful call did: its events bring that without an inspection."""
        if not self._pleg.evented():
            self.mutated()
            return
        self._effects.append(effect)
        self._confirmed = None

    def moved(self) -> None:
        """The stream has another status of the pod.

        One that is older than pleg's last answer leads to another question: pleg has begun anew after a step of the
        clock, which this process has not seen if another one undid it.
        """
        known = self.known()
        if known is not None and self._outdated(known):
            self._confirmed = None
        self._moved.set()

    def known(self) -> PodStatus | None:
        """Return the status on the stream."""
        return self._pleg.known(self._uid)

    def newer(self) -> PodStatus | None:
        """Return the status on the stream if it is newer than all changes and than what pleg answered."""
        known, latest = self.known(), self._obey_clock() + STEP_NS
        if known is None or not self._min_ns < known.timestamp_ns <= latest:
            return None
        return None if self._outdated(known) else known

    async def status(self) -> PodStatus:
        """Return a status newer than all changes, without a call if nothing was changed.

        Raises PodStatusUnknown, BusError.
        """
        if self._effects:
            await self._await_effects()
        newer, known = self.newer(), self.known()
        if known is None and self._fence_ns:
            return await self.confirmed()  # pleg may not have listed everything yet
        if newer is not None:
            return _sound(newer)
        if self._confirmed is not None:
            return _sound(self._confirmed)
        if self._min_ns == 0:
            return _sound(known or PodStatus(uid=self._uid))
        return await self._ask()

    async def confirmed(self) -> PodStatus:
        """Return a status that is also newer than the fence, for decisions that cannot be undone."""
        if self._fence_ns:
            self._min_ns, self._confirmed = max(self._min_ns, self._fence_ns), None
            self._fence_ns = 0
        return await self.status()

    def _obey_clock(self) -> int:
        """Return the time. After a step back, what was required of a later time is required from now on.

        It may have caught up since, or gone forward again: a status from before the step counts as newer until then.
        """
        now = self._clock()
        before, self._ahead_ns = self._ahead_ns, now - time.monotonic_ns()
        if self._min_ns > now + STEP_NS or abs(self._ahead_ns - before) > STEP_NS:
            self._min_ns, self._confirmed = min(self._min_ns, now), None
        if self._confirmed is not None and self._confirmed.timestamp_ns > now + STEP_NS:
            self._confirmed = None  # of an inspection that was under way then: all later ones would count as older
        return now

    async def is_dropped(self) -> bool:
        """Return True once the stream has nothing of the pod, after its last sandbox was removed.

        Events bring that soon. Should the runtime still have something, it comes back on the stream as an orphan.
        """
        if not self._pleg.evented():
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EFFECT_S):
                while self.known() is not None:
                    self._moved.clear()
                    await self._moved.wait()
        return self.known() is None

    async def _await_effects(self) -> None:
        """Wait until the stream shows all effects; one that it does not show in time is looked for by an inspection."""
        try:
            async with asyncio.timeout(EFFECT_S):
                while self._effects and not self._shows_effects():
                    self._moved.clear()
                    await self._moved.wait()
            self._effects.clear()
        except TimeoutError:
            self.mutated()

    def _shows_effects(self) -> bool:
        known = self.known()
        return known is not None and not known.error and all(effect(known) for effect in self._effects)

    async def _ask(self) -> PodStatus:
        asked_ns = self._min_ns
        status = await self._pleg.newer_than(self._uid, asked_ns)
        if asked_ns == self._min_ns:
            self._confirmed = status
        return _sound(status)

    def _outdated(self, known: PodStatus) -> bool:
        return self._confirmed is not None and known.timestamp_ns < self._confirmed.timestamp_ns


def _sound(status: PodStatus) -> PodStatus:
    if status.error:
        raise PodStatusUnknown(f"pod {status.uid}: the runtime could not be asked: {status.error}")
    return status


class StatusReporter:
    """Computes the status of one pod and passes it to the status manager."""

    def __init__(
        self,
        deps: Dependencies,
        clock: Callable[[], int],
        runtime_name: Callable[[], str],
        probes: PodProbes,
    ) -> None:
        self._messages = TerminationMessages(deps.node_info)
        self._probes = probes
        self._deps = deps
        self._clock = clock
        self._runtime_name = runtime_name

    def api_status(self, state: PodState) -> views.PodStatus:
        """Return the status that the API has once it took what was published."""
        return overlay(state.spec.raw.get("status") or {}, state.published)

    def report(
        self, state: PodState, runtime: PodStatus, waiting: Mapping[str, Waiting] | None = None, final: bool = False
    ) -> views.PodStatus:
        """Compute and publish the status; pods that the API no longer has get none."""
        health = self._deps.health
        inputs = StatusInputs(
            spec=state.spec,
            runtime=self._messages.fill(state.spec, runtime_status.with_failed_starts(runtime, state.failed_starts)),
            before=self.api_status(state),
            waiting=waiting or {},
            resources=state.resources,
            runtime_name=self._runtime_name(),
            host_ip=self._deps.node_info.host_ip,
            now_ns=self._clock(),
            recursive=self._deps.recursive((state.spec.raw.get("spec") or {}).get("runtimeClassName") or ""),
            sizes=state.sizes,
            final=final,
            devices_held=not state.released and state.rejected is None,
            rejected=state.rejected,
            ended_early=state.ended_early,
            verdicts=self._probes.verdicts,
            health_enabled=health.enabled,
            retention=self._retention(state, final),
            held_before=state.held if final and health.enabled else PodHeld(),
        )
        status = compute_status(inputs)
        if not state.gone:
            state.published = status
            self._deps.statuses.publish(state.spec, status, state.resources.reported_ns if state.resources else 0)
        return status

    def _retention(self, state: PodState, final: bool) -> Retention:
        """Return the retention of device health.

        Until this process has admitted the pod, its devices may have been freed earlier; and a missing report about a
        pod with devices proves nothing.
        """
        if not self._deps.health.synced or (final and state.resources is None):
            return Retention.KNOWN
        if final or state.grants is None or state.stage is not PodStage.SYNCING:
            return Retention.UNREPORTED
        has = uses_claims(state.spec) or any(grant.held for grant in state.grants.values())
        return Retention.UNREPORTED if has and state.resources is None else Retention.NOTHING


class WorkerContext(NamedTuple):
    """Parts of one pod's worker, which share them."""

    state: PodState
    deps: Dependencies
    observer: RuntimeObserver
    reporter: StatusReporter
    killer: Killer
    probes: PodProbes
    room: NodeRoom
    preempt: Callable[[str], None]
