"""Which source of truth is in use, and how often the runtime is listed for safety. Pure (DECISIONS: PLEG modes)."""

from dataclasses import dataclass
from enum import Enum

from protocols.messages.cri import RuntimeState

GENERIC_PERIOD_S, GENERIC_LIMIT_S = 1.0, 180.0
EVENTED_PERIOD_S, EVENTED_LIMIT_S = 300.0, 600.0


class Mode(Enum):
    GENERIC = "generic"
    """Every change is found by relisting."""
    HINT = "hint"
    """An event makes one pod be inspected at once; its content is not believed."""
    EVENTED = "evented"
    """Events carry the status; relists are only for safety."""


@dataclass(frozen=True)
class Plan:
    mode: Mode
    period_s: float
    """Seconds from the end of a full relist to the start of the next."""
    limit_s: float
    """Unhealthy when the last good relist began longer ago."""
    why: str


def plan(state: RuntimeState, stamps: bool, gate: bool) -> Plan:
    """`stamps`: the runtime's PodSandboxStatus carries timestamp and container statuses (seen at inspections)."""
    if not gate:
        return _generic("the feature gate EventedPLEG is off")
    if not state.events_supported:
        return _generic("the runtime has no event stream")
    if not state.streaming:
        return _generic(f"the event stream is down ({state.message})" if state.message else "no event stream yet")
    if not stamps:
        return Plan(Mode.HINT, GENERIC_PERIOD_S, GENERIC_LIMIT_S, "the runtime does not stamp its statuses")
    return Plan(Mode.EVENTED, EVENTED_PERIOD_S, EVENTED_LIMIT_S, "the runtime streams events and stamps statuses")


def _generic(why: str) -> Plan:
    return Plan(Mode.GENERIC, GENERIC_PERIOD_S, GENERIC_LIMIT_S, why)
