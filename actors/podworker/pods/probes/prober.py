"""Run the probes of a pod's running containers, one task per probe."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping

import msgspec

from actors.podworker.model.dependencies import Dependencies
from actors.podworker.pods.probes.handlers import check
from protocols.kinds import views
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.probes import (
    LIVENESS,
    READINESS,
    STARTUP,
    Probe,
    ProbeAttempt,
    ProbeOutcome,
    ProbeState,
    ProbeTarget,
    ProbeVerdict,
    initial_state,
    is_decided,
    observe,
    probed,
    probes_of,
    target,
    verdict_of,
)
from protocols.lifecycle.pods.types import SECOND, ContainerSpec, PodSpec
from protocols.messages.pleg import ContainerStatus, PodStatus
from protocols.process.tasks import Tasks, restarted

TRIES = 3
"""Immediate attempts while there is no result."""
ADOPTED_JITTER_S = 1.0


class ProberOptions(msgspec.Struct, frozen=True):
    """Probes of one container run; `known` has the outcomes of earlier ones."""

    deps: Dependencies
    spec: Callable[[], PodSpec]
    container: ContainerSpec
    probes: tuple[Probe, ...]
    target: ProbeTarget
    started_ns: int
    clock: Callable[[], int]
    on_change: Callable[[], None]
    known: frozenset[str] = frozenset()
    """Kinds of probes that succeeded before this process restarted."""


class Prober:
    """Owns the tasks. `verdict` is the outcome of all probes together."""

    def __init__(self, options: ProberOptions) -> None:
        self._options = options
        self._states = {p.kind: (p, initial_state(p.kind, p.kind in options.known)) for p in options.probes}
        self._started = asyncio.Event()
        self.verdict = self._judge()
        self._owner = Tasks()
        self._tasks = {p.kind: self._start(p) for p in options.probes}

    def _start(self, probe: Probe) -> "asyncio.Task[None]":
        subject = f"{probe.kind} {self._options.spec().uid}/{self._options.container.name}"
        return self._owner.start(restarted(lambda: self._run(probe), "probe", subject), "probe", subject)

    def close(self) -> None:
        self._owner.cancel()

    def end_liveness(self) -> None:
        """Stop liveness and startup probes because the pod is ending; readiness is still probed."""
        for kind in (LIVENESS, STARTUP):
            if task := self._tasks.get(kind):
                task.cancel()

    async def _run(self, probe: Probe) -> None:
        await self._due(probe)
        while not is_decided(probe, self._states[probe.kind][1]):
            if probe.kind != STARTUP:
                await self._started.wait()
            due = time.monotonic() + probe.period  # a slow answer does not defer the next attempt
            self._observe(probe, await self._attempt(probe))
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _due(self, probe: Probe) -> None:
        """Wait for the initial delay, which counts from the container's start across restarts of this process."""
        options = self._options
        since = max(0.0, (options.clock() - options.started_ns) / SECOND)
        jitter = random.uniform(0, min(probe.period, ADOPTED_JITTER_S)) if options.known else 0.0
        await asyncio.sleep(max(jitter, probe.initial_delay - since))

    async def _attempt(self, probe: Probe) -> ProbeAttempt:
        options = self._options
        for _ in range(TRIES):
            attempt = await check(options.deps, probe.handler, options.target, probe.timeout)
            if attempt.outcome is not ProbeOutcome.UNKNOWN:
                break
        return attempt

    def _observe(self, probe: Probe, attempt: ProbeAttempt) -> None:
        state, options = self._states[probe.kind][1], self._options
        options.deps.probes.observe(options.spec(), options.container.name, probe.kind, attempt.outcome.value)
        self._record(probe, state, attempt)
        self._states[probe.kind] = (probe, observe(probe, state, attempt.outcome))
        before, self.verdict = self.verdict, self._judge()
        if self.verdict != before:
            self._options.on_change()

    def _judge(self) -> ProbeVerdict:
        verdict = verdict_of(self._states)
        if verdict.started:
            self._started.set()
        return verdict

    def _record(self, probe: Probe, state: ProbeState, attempt: ProbeAttempt) -> None:
        options = self._options
        if attempt.outcome is ProbeOutcome.SUCCESS and not attempt.warning:
            return
        verb = "errored and resulted in unknown state" if attempt.outcome is ProbeOutcome.UNKNOWN else "failed"
        reason, verb = ("ProbeWarning", "warning") if attempt.warning else ("Unhealthy", verb)
        text = f"{probe.kind} probe {verb}: {attempt.output}"
        options.deps.recorder.pod(options.spec(), "Warning", reason, text, options.container)


class PodProbes:
    """Probers of one pod. `on_change` is called when a verdict changes."""

    def __init__(
        self, deps: Dependencies, spec: Callable[[], PodSpec], clock: Callable[[], int], on_change: Callable[[], None]
    ) -> None:
        self._deps = deps
        self._spec = spec
        self._clock = clock
        self._on_change = on_change
        self._probers: dict[str, Prober] = {}
        self._ending = False

    @property
    def verdicts(self) -> Mapping[str, ProbeVerdict]:
        """By container id; containers without probes have none."""
        return {id: prober.verdict for id, prober in self._probers.items()}

    def follow(self, status: PodStatus, shown: views.PodStatus) -> None:
        """Start and stop probers to match the running containers.

        `shown`: status in the API, which contains the results from before a restart of this process.
        """
        spec = self._spec()
        if not self._probers and not probed(spec):
            return
        running = {c.id: c for c in status.containers if c.state == runtime_status.RUNNING}
        for id in self._probers.keys() - running.keys():
            self._probers.pop(id).close()
        containers = {c.name: c for c in spec.containers}
        begun = [run for id, run in running.items() if id not in self._probers and run.name in containers]
        known = _known(shown) if begun else {}
        for run in begun:
            self._begin(containers[run.name], run, status, known.get(run.id, frozenset()))

    def end(self) -> None:
        self._ending = True
        for prober in self._probers.values():
            prober.end_liveness()

    def close(self) -> None:
        for prober in self._probers.values():
            prober.close()
        self._deps.probes.forget(self._spec().uid)
        self._probers.clear()

    def _begin(self, container: ContainerSpec, run: ContainerStatus, status: PodStatus, known: frozenset[str]) -> None:
        probes = probes_of(container)
        if not probes:
            return
        node_info = self._deps.node_info
        ip = next(iter(runtime_status.ordered_ips(status.ips, node_info.host_ip)), node_info.host_ip)
        options = ProberOptions(
            deps=self._deps,
            spec=self._spec,
            container=container,
            probes=probes,
            target=target(container, run.id, ip),
            started_ns=run.started_ns,
            clock=self._clock,
            on_change=self._on_change,
            known=known,
        )
        self._probers[run.id] = Prober(options)
        if self._ending:
            self._probers[run.id].end_liveness()


def _known(shown: views.PodStatus) -> dict[str, frozenset[str]]:
    """Return the kinds of probes that have succeeded, by container id."""
    entries = (*(shown.get("containerStatuses") or ()), *(shown.get("initContainerStatuses") or ()))
    return {str(entry.get("containerID") or "").partition("//")[2]: _succeeded(entry) for entry in entries}


def _succeeded(entry: views.ContainerStatus) -> frozenset[str]:
    kinds = ((STARTUP, entry.get("started")), (READINESS, entry.get("ready")))
    return frozenset(kind for kind, good in kinds if good)
