"""Decide the PLEG mode, the period of relists and the health of relists. Pure.

- generic: every change is found by relisting. Used unless the runtime streams events and answers.
- hint: an event causes the inspection of its pod; its content is ignored. Used while events were missed lately, and
  for runtimes that do not stamp their statuses.
- evented: events carry the status; relists are a safety net.
"""

from enum import Enum

import msgspec

from protocols.kube.times import format_duration
from protocols.messages.cri import RuntimeState
from protocols.messages.pleg import EVENTED

GENERIC_PERIOD_S, GENERIC_LIMIT_S = 1.0, 180.0
EVENTED_PERIOD_S, EVENTED_LIMIT_S = 300.0, 600.0


class Mode(Enum):
    """Source of changes; also the values of --pleg-mode, beside `auto`."""

    GENERIC = "generic"
    HINT = "hint"
    EVENTED = EVENTED


class ModeInput(msgspec.Struct, frozen=True):
    """The configured mode, and observations of the runtime beyond its state."""

    mode: str = "auto"
    gate: bool = True
    stamps: bool | None = None
    """True if PodSandboxStatus carries a sane timestamp and container statuses; None before the first one."""
    events_missed: bool = False
    """Events were missed within the last minute."""


class ModePlan(msgspec.Struct, frozen=True):
    """Mode and period of relists, with the reason for users."""

    mode: Mode
    period_s: float
    """Seconds from the end of a full relist to the start of the next."""
    limit_s: float
    """Relists are unhealthy when the last successful one began longer ago."""
    why: str


def plan(state: RuntimeState, inputs: ModeInput) -> ModePlan:
    """Decide by the runtime's state, the configured mode and what was found out about events."""
    if not inputs.gate:
        return _generic("the feature gate EventedPLEG is off")
    if inputs.mode == Mode.GENERIC.value:
        return _generic("asked for")
    if not state.events_supported:
        return _generic("the runtime has no event stream")
    if not state.streaming:
        return _generic(f"the event stream is down ({state.message})" if state.message else "no event stream yet")
    if not state.connected:
        return _generic(f"the runtime does not answer ({state.message})")
    if inputs.mode == Mode.HINT.value:
        return _hint("asked for")
    if inputs.stamps is False and inputs.mode != Mode.EVENTED.value:
        return _hint("the runtime does not stamp its statuses with the time")
    if inputs.events_missed:  # last: the other reasons for the same mode do not pass
        return _hint("events were missed; relists every second for a while")
    return ModePlan(Mode.EVENTED, EVENTED_PERIOD_S, EVENTED_LIMIT_S, _why_evented(inputs))


def _why_evented(inputs: ModeInput) -> str:
    if inputs.mode == Mode.EVENTED.value:
        return "asked for"
    return "the runtime streams events and stamps statuses" if inputs.stamps else "the runtime streams events"


def _hint(why: str) -> ModePlan:
    return ModePlan(Mode.HINT, GENERIC_PERIOD_S, GENERIC_LIMIT_S, why)


def _generic(why: str) -> ModePlan:
    return ModePlan(Mode.GENERIC, GENERIC_PERIOD_S, GENERIC_LIMIT_S, why)


def health_fault(last_started: float, now: float, limit_s: float, since: float = 0.0) -> str:
    """Return upstream's message for unhealthy relists, empty if healthy.

    Times are monotonic seconds; `last_started` is 0 before the first successful relist. `since`: when the limit became
    shorter; relists that were rarer until then are not overdue.
    """
    if not last_started:
        return "pleg has yet to be successful"
    if now - max(last_started, since) > limit_s:
        ago = format_duration(round(now - last_started, 1))
        return f"pleg was last seen active {ago} ago; threshold is {format_duration(limit_s)}"
    return ""


def next_health_check(last_started: float, now: float, limit_s: float, since: float = 0.0) -> float:
    """Return the seconds until `health_fault` may change by time alone; at least one."""
    return max(1.0, max(last_started, since) + limit_s - now) if last_started else limit_s
