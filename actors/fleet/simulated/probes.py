"""Outcomes of the probes of simulated containers, from annotations of their pod. Pure.

A probe is attempted as by a real node: after its initial delay, then once a period, liveness and readiness only after
the startup probe has succeeded. Its outcome depends on the time since the container's start alone, so attempts need not
be made when nobody looks: those that passed are counted at the next step.
"""

from collections.abc import Mapping

import msgspec

from protocols.lifecycle.errors import HollowInvalid
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.hollow import parse_duration
from protocols.lifecycle.pods.probes import (
    STARTUP,
    Probe,
    ProbeOutcome,
    ProbeState,
    ProbeVerdict,
    initial_state,
    is_decided,
    observe,
    probes_of,
    verdict_of,
)
from protocols.lifecycle.pods.types import SECOND, PodSpec
from protocols.messages.pleg import ContainerStatus, PodStatus

PREFIX = "nodeplane.dev/hollow-"
"""Followed by `readiness`, `liveness` or `startup`: how the probes of that kind end."""
FOREVER_NS = 2**63 - 1


class Outcomes(msgspec.Struct, frozen=True):
    """Probes succeed from `from_ns` until `until_ns` after the container's start, and fail at other times."""

    from_ns: int = 0
    until_ns: int = FOREVER_NS

    def at(self, since_ns: int) -> ProbeOutcome:
        return ProbeOutcome.SUCCESS if self.from_ns <= since_ns < self.until_ns else ProbeOutcome.FAILURE

    def next_change(self, since_ns: int) -> int:
        """Return when the outcome changes after that time."""
        return min((at for at in (self.from_ns, self.until_ns) if at > since_ns), default=FOREVER_NS)


def read_outcomes(annotations: Mapping[str, str], kind: str) -> Outcomes:
    """Return the outcomes: `ok` (the default), `fail`, `after 5s` or `until 1m`. Raises HollowInvalid."""
    name = PREFIX + kind.lower()
    word, _, rest = annotations.get(name, "ok").partition(" ")
    if word == "ok" and not rest:
        return Outcomes()
    if word == "fail" and not rest:
        return Outcomes(FOREVER_NS, FOREVER_NS)
    if word in ("after", "until") and rest:
        at_ns = parse_duration(rest)
        return Outcomes(from_ns=at_ns) if word == "after" else Outcomes(until_ns=at_ns)
    raise HollowInvalid(f"annotation {name}: write ok, fail, `after 5s` or `until 1m`")


class Attempts(msgspec.Struct):
    """The state of one probe, and when it is attempted next."""

    probe: Probe
    outcomes: Outcomes
    state: ProbeState
    next_ns: int

    def pass_time(self, started_ns: int, now_ns: int) -> None:
        """Count the attempts until now. They may be those of months: few of them change the verdict."""
        while self.next_ns <= now_ns and not is_decided(self.probe, self.state):
            since_ns = self.next_ns - started_ns
            self._attempt(self.outcomes.at(since_ns))
            self._repeat(min(now_ns + 1, started_ns + self.outcomes.next_change(since_ns)))

    def skip_to(self, at_ns: int) -> None:
        """Make no attempt before that time."""
        self.next_ns = max(self.next_ns, at_ns)

    def due_ns(self, started_ns: int) -> int:
        """Return when the verdict may change next; FOREVER_NS for never."""
        if is_decided(self.probe, self.state):
            return FOREVER_NS
        outcome = self.outcomes.at(self.next_ns - started_ns)
        if self.state.good is not (outcome is ProbeOutcome.SUCCESS):
            return self.next_ns
        change_ns = self.outcomes.next_change(self.next_ns - started_ns)
        return FOREVER_NS if change_ns == FOREVER_NS else max(self.next_ns, started_ns + change_ns)

    def _attempt(self, outcome: ProbeOutcome) -> None:
        self.state = observe(self.probe, self.state, outcome)
        self.next_ns += self._period_ns

    def _repeat(self, until_ns: int) -> None:
        """Count the attempts before that time, which end as the last one, up to the one that changes the verdict."""
        state, success = self.state, self.state.last is ProbeOutcome.SUCCESS
        if is_decided(self.probe, state):
            return
        count = max(0, -((self.next_ns - until_ns) // self._period_ns))
        if state.good is not success:
            count = min(count, (self.probe.success if success else self.probe.failure) - state.streak - 1)
        self.state = ProbeState(state.good, state.streak + count, state.last)
        self.next_ns += count * self._period_ns

    @property
    def _period_ns(self) -> int:
        return int(self.probe.period * SECOND)


class ProbeBook:
    """The probes of the running containers of one pod."""

    __slots__ = ("_by_container", "due_ns")

    def __init__(self) -> None:
        self._by_container: dict[str, tuple[int, dict[str, Attempts]]] = {}
        """Start of the container, and attempts by kind, by container id."""
        self.due_ns = 0
        """When a verdict may change next; 0 for never."""

    def follow(
        self, spec: PodSpec, status: PodStatus, annotations: Mapping[str, str], now_ns: int
    ) -> dict[str, ProbeVerdict]:
        """Return the verdicts by container id. Raises HollowInvalid."""
        running = {run.id: run for run in status.containers if run.state == runtime_status.RUNNING}
        self._by_container = {id: known for id, known in self._by_container.items() if id in running}
        for id, run in running.items():
            if id not in self._by_container and (attempts := _begin(spec, run, annotations)):
                self._by_container[id] = run.started_ns, attempts
        verdicts, dues = {}, []
        for id, (started_ns, attempts) in self._by_container.items():
            verdicts[id] = _pass_time(started_ns, attempts, now_ns)
            if not verdicts[id].fault:  # else its kill is under way
                dues += [attempt.due_ns(started_ns) for attempt in attempts.values()]
        due_ns = min(dues, default=FOREVER_NS)
        self.due_ns = 0 if due_ns == FOREVER_NS else due_ns
        return verdicts


def _begin(spec: PodSpec, run: ContainerStatus, annotations: Mapping[str, str]) -> dict[str, Attempts]:
    container = spec.find(run.name)
    return {
        probe.kind: Attempts(
            probe,
            read_outcomes(annotations, probe.kind),
            initial_state(probe.kind),
            run.started_ns + int(probe.initial_delay * SECOND),
        )
        for probe in (probes_of(container) if container is not None else ())
    }


def _pass_time(started_ns: int, attempts: dict[str, Attempts], now_ns: int) -> ProbeVerdict:
    startup = attempts.get(STARTUP)
    if startup is not None:
        startup.pass_time(started_ns, now_ns)
    for kind, probed in attempts.items():
        if kind == STARTUP:
            continue
        if startup is not None and startup.state.good is not True:
            probed.skip_to(startup.next_ns)
        else:
            probed.pass_time(started_ns, now_ns)
    return verdict_of({kind: (probed.probe, probed.state) for kind, probed in attempts.items()})
