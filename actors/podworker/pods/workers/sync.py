"""Sync a pod that should run: admit it once, then plan and act until it has finished or is deleted."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from actors.podworker.model.dependencies import NodeFields
from actors.podworker.model.errors import HostnameTooLong, RuntimeClassUnknown, SyncFailed, VolumeNotReady
from actors.podworker.pods.containers.names import dns_excess
from actors.podworker.pods.containers.sandbox import runtime_handler, sandbox_config
from actors.podworker.pods.containers.security import REASON, unenforced
from actors.podworker.pods.containers.starter import SandboxRef, Starter, StartRequest, node_resolv
from actors.podworker.pods.volumes.volumes import Volumes
from actors.podworker.pods.workers.claims import ClaimPreparation
from actors.podworker.pods.workers.context import WorkerContext
from actors.podworker.pods.workers.resizing import Resizing
from protocols.bus import BusError, DeadlineExceeded, Unavailable
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.admission import REJECTED, admit_request, forbidden_sysctl, rejection
from protocols.lifecycle.pods.claims import with_cdi
from protocols.lifecycle.pods.deadline import EXCEEDED, deadline_ns
from protocols.lifecycle.pods.resources import allocated_pod, desired_amounts, shown_sizes
from protocols.lifecycle.pods.types import INIT, SECOND, ContainerSpec, PodActions, PodSpec, Start, Waiting
from protocols.lifecycle.restarts import backoff
from protocols.lifecycle.restarts.backoff import SANDBOX
from protocols.lifecycle.restarts.plan import CREATING, compute_actions
from protocols.lifecycle.status.events import new_backoffs
from protocols.lifecycle.status.pod import is_over, restart_counts
from protocols.messages.pleg import PodStatus
from protocols.trace import clock, from_wall, record, span

log = logging.getLogger("podworker")


class PodSync:
    """Steps of stage SYNCING. `sync()` returns True when the pod has finished and the next stage is due."""

    def __init__(self, context: WorkerContext, clock: Callable[[], int]) -> None:
        state, deps = context.state, context.deps
        self._state = state
        self._deps = deps
        self._observer = context.observer
        self._reporter = context.reporter
        self._killer = context.killer
        self._probes = context.probes
        self._room = context.room
        self._preempt = context.preempt
        self._clock = clock
        self._starter = Starter(deps, context.killer)
        self._claims = ClaimPreparation(deps)
        self._resizing = Resizing(context, clock)
        self.volumes = Volumes(deps, lambda: state.spec)
        self.wake_ns = 0
        """Time of the next sync; 0 = none."""
        self._failed_ns = self._hold_ns = 0
        """Time of a failed attempt, and the time until which nothing is changed in the runtime after it."""
        self.held_back = False
        self.volumes_failed = 0
        """When volumes could not be set up first, by the clock of spans; 0 = they could in the last attempt."""
        self._init_began = ("", 0)
        """The init container that was started last, and when, by the clock of spans."""
        self.acted = False
        """The last sync changed the runtime: sync again at once."""

    async def sync(self) -> bool:
        self.acted = self.held_back = False
        state = self._state
        if self._unwanted():
            return True
        status, plan = self._plan(await self._observer.status())
        if self._was_removed(status) and not self._hold(plan):
            await self._admit(status)
            if state.rejected is not None:
                return True
        shown = self._reporter.report(state, status, self._waiting(plan))
        over = is_over(state.spec, shown) and not plan.restart_all
        if over or self._too_long(shown):
            return True
        if self._hold(plan):
            return False
        if state.grants is None:
            await self._admit(status)
            if state.rejected is not None:
                return True
            self._reporter.report(state, status, self._waiting(plan))
        await self._resize(status, shown, plan)
        if state.claims is None and runtime_status.live(status):
            state.claims = await self._claims.adopt(state.spec)
        if plan.mutates:
            await self._act(*self._plan(await self._observer.confirmed()))
        self.volumes.refresh(self._node(status))
        return False

    def _was_removed(self, status: PodStatus) -> bool:
        """Return True for a pod that ran before this process started and that the runtime has no record of.

        Its admission decides before its lost containers do, as after a reboot in kubelet.
        """
        if self._state.grants is not None or status.sandboxes or status.containers:
            return False
        return bool(restart_counts(self._reporter.api_status(self._state)))

    async def _resize(self, status: PodStatus, shown: views.PodStatus, plan: PodActions) -> None:
        if await self._resizing.sync(status, shown):
            self._reporter.report(self._state, status, self._waiting(plan))
        if due := self._resizing.due_ns:
            self.wake_ns = min(self.wake_ns or due, due)

    def _waiting(self, plan: PodActions) -> dict[str, Waiting]:
        hooks = self._state.hook_failures
        failed = {step.name: hooks[step.name] for step in plan.start if step.name in hooks}
        return {**dict.fromkeys(plan.restarting, Waiting(CREATING)), **failed, **self._state.problems, **plan.waiting}

    @property
    def idle(self) -> bool:
        """True if the last sync found nothing to do and nothing to wait for."""
        waits = self.acted or self.held_back or self.volumes_failed or self.wake_ns or self._state.problems
        return not waits and self._state.grants is not None and self._state.claims is not None

    def close(self) -> None:
        self.volumes.close()

    def _node(self, status: PodStatus) -> NodeFields:
        return self._deps.node_fields(status.ips)

    def _too_long(self, shown: views.PodStatus) -> bool:
        """Return True beyond activeDeadlineSeconds; else wake up at its end."""
        ends_ns = deadline_ns(self._state.spec, shown)
        if ends_ns and self._clock() >= ends_ns:
            self._state.ended_early = EXCEEDED
            self._deps.recorder.pod(self._state.spec, "Normal", EXCEEDED.reason, EXCEEDED.message)
            return True
        if ends_ns:
            self.wake_ns = min(self.wake_ns or ends_ns, ends_ns)
        return False

    def wait(self, seconds: float) -> None:
        """Change nothing in the runtime for so long, after a failed attempt; 0 ends the wait."""
        self._failed_ns = self._clock()
        self._hold_ns = self._failed_ns + int(seconds * SECOND)

    def _hold(self, plan: PodActions) -> bool:
        """Return True during the wait. A clock that shows a time before the failure went back and ends it."""
        waits = self._failed_ns <= self._clock() < self._hold_ns
        self.held_back = waits and (plan.mutates or self._state.grants is None)
        if self.held_back:
            self.wake_ns = min(self.wake_ns or self._hold_ns, self._hold_ns)
        return self.held_back

    def _unwanted(self) -> bool:
        state = self._state
        return (
            state.gone
            or state.spec.deleting
            or state.spec.terminal
            or state.rejected is not None
            or state.ended_early is not None
        )

    def _plan(self, found: PodStatus) -> tuple[PodStatus, PodActions]:
        state = self._state
        status = runtime_status.with_failed_starts(found, state.failed_starts)
        if state.backoffs is None:
            state.backoffs = backoff.recover_all(status)
        counts = restart_counts(self._reporter.api_status(state))
        self._probes.follow(status, self._reporter.api_status(state))
        if state.replaced:
            state.replaced.intersection_update({container.id for container in status.containers})
        plan = compute_actions(
            state.spec, status, state.backoffs, self._clock(), counts, self._probes.verdicts, state.replaced
        )
        plan = state.pauses.applied(self._killer.without_pending(plan), self._clock())
        self.wake_ns = plan.wake_ns
        for event in new_backoffs(state.spec, status, plan.waiting, state.announced):
            self._deps.recorder.pod(state.spec, *event)
        return status, plan

    async def _admit(self, status: PodStatus) -> None:
        """Admit the pod, once per incarnation of this process. A rejection fails the pod."""
        state = self._state
        forbidden = forbidden_sysctl(state.spec, self._deps.node_info.sysctls)
        if unfit := forbidden or await self._misfit():
            self._reject(unfit)
            return
        try:
            present = any(sandbox.ready for sandbox in status.sandboxes)
            request = admit_request(self._allocated(), runtime_status.live(status), present)
            with span(state.spec.uid, "admit"):
                admitted = await self._deps.devices.admit(request)
        except BusError as error:
            if (rejected := rejection(error)) is None:
                raise
            self._reject(rejected)
            return
        state.grants = admitted.grants
        for warning in admitted.warnings:
            self._deps.recorder.pod(state.spec, "Warning", "DeviceConflict", warning)

    async def _misfit(self) -> Waiting | None:
        """Return why the node rejects the pod; None once it is counted.

        A rejection is final, so the node is read again before. Raises RoomTaken while preempted pods end.
        """
        room, node, spec = self._room, self._deps.local_node, self._allocated()
        verdict = room.admit(spec, node.node(), node.advertised())
        if not verdict.admitted:
            with contextlib.suppress(NodeplaneError, OSError, TimeoutError):
                await node.refresh()
            verdict = room.admit(spec, node.node(), node.advertised())
        if verdict.admitted:
            self._state.sizes.admitted = desired_amounts(spec)
        for uid in verdict.preempt:
            self._preempt(uid)
        return room.settle(spec, verdict)

    def _allocated(self) -> PodSpec:
        """Return the pod with what is allocated to it; before that as admitted, at first as the API's status shows."""
        state, sizes = self._state, self._state.sizes
        allocated = sizes.admitted if sizes.allocated is None else sizes.allocated
        if allocated is None:
            allocated = shown_sizes(self._reporter.api_status(state))
        return allocated_pod(state.spec, allocated)

    def _reject(self, rejected: Waiting) -> None:
        self._state.rejected = rejected
        self._room.discount(self._state.spec.uid)
        text = rejected.message.removeprefix(REJECTED)
        self._deps.recorder.pod(self._state.spec, "Warning", rejected.reason, text)

    async def _act(self, status: PodStatus, plan: PodActions) -> None:
        self.acted = True
        if not plan.mutates:
            return
        sandbox, started = None, False
        try:
            with span(self._state.spec.uid, "sync"):
                await self._clear(plan)
                if plan.start:
                    await self._prepare_volumes(status)
                    await self._prepare_claims(plan)
                sandbox = await self._ensure_sandbox(plan, status)
                if sandbox is not None:
                    started = await self._start_all(plan.start, sandbox)
        finally:
            if sandbox is not None and started and not plan.ends:
                runs = {(step.name, step.attempt) for step in plan.start}
                self._observer.changed(partial(runtime_status.shows_runs, sandbox.sandbox_id, runs))
            else:
                self._observer.mutated()

    async def _prepare_volumes(self, status: PodStatus) -> None:
        """Set up volumes before the sandbox, as upstream: a pod without them takes nothing of the runtime."""
        state = self._state
        try:
            with span(state.spec.uid, "volumes"):
                await self.volumes.prepare(self._node(status))
        except VolumeNotReady as error:
            self._deps.recorder.pod(state.spec, "Warning", "FailedMount", str(error))
            reason = "PodInitializing" if state.spec.inits else "ContainerCreating"
            state.problems |= {c.name: Waiting(reason, str(error)) for c in state.spec.containers}
            self.volumes_failed = self.volumes_failed or clock()
            raise SyncFailed(str(error)) from None
        if self.volumes_failed:
            record(state.spec.uid, "wait for volumes", self.volumes_failed)
            self.volumes_failed = 0
            state.problems.clear()

    async def _prepare_claims(self, plan: PodActions) -> None:
        """Prepare claims before each sandbox, as upstream; for a running pod, once per incarnation of this process."""
        renew = plan.create_sandbox >= 0
        if renew or self._state.claims is None:
            self._state.claims = await self._claims.prepare(self._state.spec, renew)

    async def _clear(self, plan: PodActions) -> None:
        spec, runtime = self._state.spec, self._deps.runtime
        for kill in plan.kill:
            if kill.restart:
                self._state.replaced.add(kill.id)
            self._killer.stop(spec, kill, kill.grace or spec.grace)
        for sandbox_id in plan.stop_sandboxes:
            with span(spec.uid, "stop sandbox", id=sandbox_id):
                await runtime.stop_sandbox(sandbox_id)
        for container_id in plan.remove:
            await runtime.remove_container(container_id)
            self._state.failed_starts.pop(container_id, None)
            self._state.announced.discard(container_id)
            self._killer.forget(container_id)
        for sandbox_id in plan.remove_sandboxes:
            await runtime.remove_sandbox(sandbox_id)

    async def _ensure_sandbox(self, plan: PodActions, status: PodStatus) -> SandboxRef | None:
        """Return the sandbox to start in, created if planned; None when nothing is to start."""
        if plan.create_sandbox < 0:
            current = runtime_status.current_sandbox(status)
            if current is None or not plan.start:
                return None
            return SandboxRef(current.id, current.attempt, current.ips)
        spec = self._allocated()
        if not spec.host_network and (fault := self._deps.network()):
            self._deps.recorder.pod(spec, "Warning", "NetworkNotReady", f"network is not ready: {fault}")
            self._pause(SANDBOX, "", fault, soon=True)
            return None
        self._announce_sandbox(plan)
        node_info = self._deps.node_info
        try:
            config = sandbox_config(spec, plan.create_sandbox, node_info.logs, node_resolv(spec), node_info.embedded)
            await asyncio.to_thread(self._make_log_directory, config.log_directory)
            with span(spec.uid, "sandbox", attempt=plan.create_sandbox):
                handler = await runtime_handler(self._deps.objects, spec)
                sandbox_id = await self._deps.runtime.run_sandbox(config, handler)
        except (BusError, RuntimeClassUnknown, HostnameTooLong) as error:
            text = f"Failed to create pod sandbox: {error}"
            self._deps.recorder.pod(spec, "Warning", "FailedCreatePodSandBox", text)
            if isinstance(error, (Unavailable, DeadlineExceeded)):
                raise
            self._pause(SANDBOX, "", text)
            return None
        self._passed(SANDBOX)
        return SandboxRef(sandbox_id, plan.create_sandbox)

    def _announce_sandbox(self, plan: PodActions) -> None:
        """Record that a sandbox is replaced, or before the first one what is not enforced, and what DNS leaves out."""
        record_event, spec, node_info = self._deps.recorder.pod, self._state.spec, self._deps.node_info
        if plan.create_sandbox > 0:
            record_event(spec, "Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
        elif text := unenforced(spec, node_info.embedded, node_info.root_user):
            record_event(spec, "Warning", REASON, text)
        for text in dns_excess(spec, node_resolv(spec)):
            record_event(spec, "Warning", "DNSConfigForming", text)

    @staticmethod
    def _make_log_directory(path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    async def _start_all(self, steps: tuple[Start, ...], sandbox: SandboxRef) -> bool:
        """Start containers in turn; one that fails does not prevent the others. True if there are any and all run."""
        spec = self._allocated()
        return bool(steps) and all([await self._start(spec, step, sandbox) for step in steps])

    async def _start(self, spec: PodSpec, step: Start, sandbox: SandboxRef) -> bool:
        """Start one container; True if it runs.

        If it cannot be created it is paused; a failed StartContainer has the crash back-off.
        """
        state = self._state
        container = spec.find(step.name)
        if container is None:
            return False  # the spec changed meanwhile
        self._end_init(container)
        if step.crashed_ns and state.backoffs is not None:
            entry = state.backoffs.get(step.name)
            if entry is not None and entry.delay_ns:
                record(state.spec.uid, "back-off", from_wall(step.crashed_ns), container=step.name)
            state.backoffs[step.name] = backoff.advance(entry, step.crashed_ns, self._clock(), container.hash)
        grant = with_cdi((state.grants or {}).get(step.name), (state.claims or {}).get(step.name, ()))
        if step.existing:
            state.sizes.uncertain.add(step.existing)  # it may have been created with an earlier size
        failure = await self._starter.start(StartRequest(spec, container, step, sandbox, grant))
        state.hook_failures.pop(step.name, None)
        if failure is not None and failure.hook:
            state.hook_failures[step.name] = failure.waiting
        elif failure is not None and failure.started is None:
            state.problems[step.name] = failure.waiting
            self._pause(step, sandbox.sandbox_id, f"container {step.name}: {failure.waiting.message}", failure.soon)
            return False
        state.problems.pop(step.name, None)
        self._passed(step)
        if container.kind == INIT:
            self._init_began = (step.name, clock())
        if failure is not None and failure.started is not None:
            state.failed_starts[failure.id] = failure.started
        return failure is None

    def _end_init(self, container: ContainerSpec) -> None:
        """Record the run of the init container for which this one waited."""
        name, began = self._init_began
        if name not in ("", container.name):
            record(self._state.spec.uid, "wait for init container", began, container=name)
            self._init_began = ("", 0)

    def _passed(self, step: Start) -> None:
        """End the pauses of a step that succeeded."""
        if pause := self._state.pauses.passed(step.name):
            name = f"wait for {'container' if step.name else 'sandbox'}"
            record(self._state.spec.uid, name, from_wall(pause.began_ns), container=step.name, reason=pause.why)

    def _pause(self, step: Start, sandbox: str, why: str, soon: bool = False) -> None:
        spec, now_ns = self._state.spec, self._clock()
        pause = self._state.pauses.failed(step, sandbox, now_ns, soon, why)
        if pause.times in (1, 8):
            seconds = (pause.until_ns - now_ns) / SECOND
            log.warning("pod start paused pod=%s/%s seconds=%.1f error=%s", spec.namespace, spec.name, seconds, why)
