"""The probes of one run of one container: a task each, and the verdict they add up to."""

import asyncio
import random
from collections.abc import Callable

import msgspec

from actors.podworker.ports import World
from actors.podworker.probes.checks import check
from actors.podworker.probes.machine import Standing, begin, judge, observe, over
from actors.podworker.probes.types import LIVENESS, STARTUP, Attempt, Outcome, Probe, Target, Verdict
from actors.podworker.types import SECOND, ContainerSpec, PodSpec

TRIES = 3
"""An attempt that says nothing is repeated at once, so often."""
ADOPTED_JITTER_S = 1.0


class ProberOptions(msgspec.Struct, frozen=True):
    world: World
    spec: Callable[[], PodSpec]
    container: ContainerSpec
    probes: tuple[Probe, ...]
    target: Target
    started_ns: int
    clock: Callable[[], int]
    on_change: Callable[[], None]
    known: frozenset[str] = frozenset()
    """Kinds of which an earlier life of this process has seen the success."""


class Prober:
    def __init__(self, options: ProberOptions) -> None:
        self._options = options
        self._standings = {p.kind: (p, begin(p.kind, p.kind in options.known)) for p in options.probes}
        self._started = asyncio.Event()
        self.verdict = self._judge()
        loop = asyncio.get_running_loop()
        self._tasks = {p.kind: loop.create_task(self._run(p)) for p in options.probes}

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    def end_liveness(self) -> None:
        """The pod is being ended: only readiness is still asked for, and nothing is killed for a probe."""
        for kind in (LIVENESS, STARTUP):
            if task := self._tasks.get(kind):
                task.cancel()

    async def _run(self, probe: Probe) -> None:
        await self._due(probe)
        while not over(probe, self._standings[probe.kind][1]):
            if probe.kind != STARTUP:
                await self._started.wait()
            self._observe(probe, await self._attempt(probe))
            await asyncio.sleep(probe.period)

    async def _due(self, probe: Probe) -> None:
        """The initial delay counts from the container's start, also across restarts of this process."""
        options = self._options
        since = max(0.0, (options.clock() - options.started_ns) / SECOND)
        jitter = random.uniform(0, min(probe.period, ADOPTED_JITTER_S)) if options.known else 0.0
        await asyncio.sleep(max(jitter, probe.initial_delay - since))

    async def _attempt(self, probe: Probe) -> Attempt:
        options = self._options
        for _ in range(TRIES):
            attempt = await check(options.world, probe.handler, options.target, probe.timeout)
            if attempt.outcome is not Outcome.UNKNOWN:
                break
        return attempt

    def _observe(self, probe: Probe, attempt: Attempt) -> None:
        standing = self._standings[probe.kind][1]
        self._tell(probe, standing, attempt)
        self._standings[probe.kind] = (probe, observe(probe, standing, attempt.outcome))
        before, self.verdict = self.verdict, self._judge()
        if self.verdict != before:
            self._options.on_change()

    def _judge(self) -> Verdict:
        verdict = judge(self._options.container.name, self._standings)
        if verdict.started:
            self._started.set()
        return verdict

    def _tell(self, probe: Probe, standing: Standing, attempt: Attempt) -> None:
        options = self._options
        if attempt.outcome is Outcome.SUCCESS and not attempt.warning:
            return
        verb = "errored" if attempt.outcome is Outcome.UNKNOWN else "failed"
        reason, verb = ("ProbeWarning", "warning") if attempt.warning else ("Unhealthy", verb)
        text = f"{probe.kind} probe {verb}: {attempt.output}"
        options.world.recorder.pod(options.spec(), "Warning", reason, text, options.container)
