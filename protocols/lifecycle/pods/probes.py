"""Probes of a container with the API's defaults, and the verdict that follows from their results. Pure, no clock.

Invariant: a result counts only after as many equal attempts in a row as its threshold requires; an attempt without a
result changes nothing.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Literal

import msgspec

from protocols.kinds import views
from protocols.lifecycle.pods.types import INIT, ContainerSpec, PodSpec

LIVENESS, READINESS, STARTUP = "Liveness", "Readiness", "Startup"
Field = Literal["livenessProbe", "readinessProbe", "startupProbe"]
FIELDS: dict[str, Field] = {LIVENESS: "livenessProbe", READINESS: "readinessProbe", STARTUP: "startupProbe"}
Action = Literal["exec", "httpGet", "tcpSocket", "grpc"]
HANDLERS: tuple[Action, ...] = ("exec", "httpGet", "tcpSocket", "grpc")


class ProbeOutcome(Enum):
    """Result of one attempt."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"
    """No result: the probe could not be run, which says nothing about the container."""


class ProbeAttempt(msgspec.Struct, frozen=True):
    """One attempt with its output, for events."""

    outcome: ProbeOutcome
    output: str = ""
    warning: bool = False
    """Success with a warning: a redirect that was not followed, or another code from 300 to 399."""


class Probe(msgspec.Struct, frozen=True):
    """A container's probe with defaults; times in seconds, `success` and `failure` are thresholds."""

    kind: str
    handler: views.Probe
    """The field exec, httpGet, tcpSocket or grpc."""
    initial_delay: float = 0
    period: float = 10
    timeout: float = 1
    success: int = 1
    failure: int = 3
    grace: int = 0
    """Grace period in seconds after a failure; 0 = the pod's."""


class ProbeTarget(msgspec.Struct, frozen=True):
    """Where a probe's handler reaches the container."""

    container_id: str
    ip: str
    ports: dict[str, int] = {}
    """Named ports of the container."""


class ProbeVerdict(msgspec.Struct, frozen=True):
    """Combined result of all probes of one running container."""

    started: bool = True
    ready: bool = True
    fault: str = ""
    """Kind of the probe for which the container must end, `liveness` or `startup`; empty if there is none."""
    grace: int = 0


def probes_of(container: ContainerSpec) -> tuple[Probe, ...]:
    """Return the probes of a container; plain init containers have none."""
    if container.kind == INIT:
        return ()
    raw_probes = ((kind, container.raw.get(field)) for kind, field in FIELDS.items())
    return tuple(_probe(kind, raw) for kind, raw in raw_probes if raw and any(raw.get(h) for h in HANDLERS))


def probed(spec: PodSpec) -> bool:
    """Return True for a pod with any probe."""
    return any(container.raw.get(field) for container in spec.containers for field in FIELDS.values())


def target(container: ContainerSpec, container_id: str, ip: str) -> ProbeTarget:
    """Return the target of a run; unnamed ports are numbers in the probe itself."""
    ports = {p["name"]: int(p.get("containerPort") or 0) for p in container.raw.get("ports") or () if p.get("name")}
    return ProbeTarget(container_id, ip, ports)


def _handler(raw: views.Probe) -> views.Probe:
    handler: views.Probe = {}
    for action in HANDLERS:
        if raw.get(action):
            handler[action] = raw[action]
    return handler


def _probe(kind: str, raw: views.Probe) -> Probe:
    return Probe(
        kind=kind,
        handler=_handler(raw),
        initial_delay=float(raw.get("initialDelaySeconds") or 0),
        period=max(1.0, float(raw.get("periodSeconds") or 10)),
        timeout=max(1.0, float(raw.get("timeoutSeconds") or 1)),
        success=int(raw.get("successThreshold") or 1),
        failure=int(raw.get("failureThreshold") or 3),
        grace=int(raw.get("terminationGracePeriodSeconds") or 0),
    )


class ProbeState(msgspec.Struct, frozen=True):
    """`good` is None until a startup probe has decided."""

    good: bool | None
    streak: int = 0
    last: ProbeOutcome = ProbeOutcome.UNKNOWN


def initial_state(kind: str, known: bool = False) -> ProbeState:
    """Return the state before the first attempt. `known`: it succeeded before this process restarted."""
    if known:
        return ProbeState(True)
    return ProbeState({LIVENESS: True, READINESS: False, STARTUP: None}[kind])


def observe(probe: Probe, state: ProbeState, outcome: ProbeOutcome) -> ProbeState:
    """Return the state after an attempt; the verdict changes once its threshold is reached."""
    if outcome is ProbeOutcome.UNKNOWN:
        return state
    streak = state.streak + 1 if outcome is state.last else 1
    success = outcome is ProbeOutcome.SUCCESS
    if streak < (probe.success if success else probe.failure):
        return ProbeState(state.good, streak, outcome)
    return ProbeState(success, streak, outcome)


def is_decided(probe: Probe, state: ProbeState) -> bool:
    """Return True if no further attempt is needed: the container has started, or will be killed."""
    if probe.kind == READINESS:
        return False
    return state.good is False or (probe.kind == STARTUP and state.good is True)


def verdict_of(states: Mapping[str, tuple[Probe, ProbeState]]) -> ProbeVerdict:
    """Combine the states of one container, by kind."""
    good = {kind: state.good for kind, (_, state) in states.items()}
    started = good.get(STARTUP, True) is True
    for kind in (STARTUP, LIVENESS):
        if good.get(kind, True) is False:
            return ProbeVerdict(
                started, started and good.get(READINESS, True) is True, kind.lower(), states[kind][0].grace
            )
    return ProbeVerdict(started, started and good.get(READINESS, True) is True)
