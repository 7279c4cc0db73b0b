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
class Wish:
    """What is wanted, and what is known of the runtime beside its state."""

    mode: str = "auto"
    gate: bool = True
    stamps: bool | None = None
    """Whether its PodSandboxStatus carries timestamp and container statuses; None: not seen yet."""
    suspect: bool = False
    """It was caught at not telling something."""


@dataclass(frozen=True)
class Plan:
    mode: Mode
    period_s: float
    """Seconds from the end of a full relist to the start of the next."""
    limit_s: float
    """Unhealthy when the last good relist began longer ago."""
    why: str


def plan(state: RuntimeState, wish: Wish) -> Plan:
    if not wish.gate:
        return _generic("the feature gate EventedPLEG is off")
    if wish.mode == Mode.GENERIC.value:
        return _generic("asked for")
    if not state.events_supported:
        return _generic("the runtime has no event stream")
    if not state.streaming:
        return _generic(f"the event stream is down ({state.message})" if state.message else "no event stream yet")
    if not state.connected:
        return _generic(f"the runtime does not answer ({state.message})")
    if wish.suspect:
        return _hint("events were missed; every second is looked at for a while")
    if wish.mode == Mode.HINT.value:
        return _hint("asked for")
    if wish.stamps is False and wish.mode != Mode.EVENTED.value:
        return _hint("the runtime does not stamp its statuses")
    return Plan(Mode.EVENTED, EVENTED_PERIOD_S, EVENTED_LIMIT_S, _why_evented(wish))


def _why_evented(wish: Wish) -> str:
    if wish.mode == Mode.EVENTED.value:
        return "asked for"
    return "the runtime streams events and stamps statuses" if wish.stamps else "the runtime streams events"


def _hint(why: str) -> Plan:
    return Plan(Mode.HINT, GENERIC_PERIOD_S, GENERIC_LIMIT_S, why)


def _generic(why: str) -> Plan:
    return Plan(Mode.GENERIC, GENERIC_PERIOD_S, GENERIC_LIMIT_S, why)


def fault(last_started: float, now: float, limit_s: float) -> str:
    """Empty when healthy. Times are monotonic seconds; `last_started` 0: no relist has ended well yet."""
    if not last_started:
        return "pleg has yet to be successful"
    if now - last_started > limit_s:
        return f"pleg was last seen active {_text(now - last_started)} ago; threshold is {_text(limit_s)}"
    return ""


def check_in(last_started: float, now: float, limit_s: float) -> float:
    """Seconds until `fault` may answer otherwise by time alone; at least one."""
    return max(1.0, last_started + limit_s - now) if last_started else limit_s


def _text(seconds: float) -> str:
    """As Go prints a duration: 3m1.2s."""
    minutes, rest = divmod(round(seconds, 1), 60)
    return f"{int(minutes)}m{rest:g}s" if minutes else f"{rest:g}s"
