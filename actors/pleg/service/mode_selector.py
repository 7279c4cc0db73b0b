"""Which mode is in use and whether relists happen: decided here, published as `pleg-state` when it changes."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from actors.pleg.state_machine.mode import Mode, Plan, Wish, check_in, fault, plan
from protocols.messages.cri import RuntimeState
from protocols.messages.pleg import PlegState

LISTING = "everything is listed once before events are believed"
SUSPECT_S = 60.0
"""How long a runtime that did not tell of something is not relied upon."""


@dataclass(frozen=True)
class StanceOptions:
    mode: str
    """As asked for: auto, evented, hint or generic."""
    gate: bool
    last_started: Callable[[], float]
    """Monotonic start of the last good relist, 0 = none."""
    on_period: Callable[[], None]
    """The period of relists has changed."""
    on_state: Callable[[PlegState], None]
    believes: Callable[[], bool]
    """Whether everything was listed since events come without a gap."""


class Stance:
    def __init__(self, options: StanceOptions) -> None:
        self._options = options
        self._stamps: bool | None = None
        self._suspect_until = 0.0
        self._told: PlegState | None = None
        self.runtime = RuntimeState()
        self.plan: Plan = plan(self.runtime, self._wish())

    @property
    def merges(self) -> bool:
        """Content of events is believed only of a runtime that was seen to stamp, or when a person asked for it."""
        wanted = bool(self._stamps) or self._options.mode == Mode.EVENTED.value
        return wanted and self.plan.mode is Mode.EVENTED

    @property
    def check_in(self) -> float:
        """Seconds after which `tell` may have news by time alone."""
        return check_in(self._options.last_started(), time.monotonic(), self.plan.limit_s)

    def on_runtime(self, state: RuntimeState) -> None:
        self.runtime = state
        self._replan()

    def on_stamps(self, stamps: bool) -> None:
        if stamps != self._stamps:
            self._stamps = stamps
            self._replan()

    def suspect(self) -> None:
        """The runtime did not tell of something."""
        self._suspect_until = time.monotonic() + SUSPECT_S
        self._replan()

    def on_relist(self) -> None:
        if self._suspect_until and time.monotonic() >= self._suspect_until:
            self._suspect_until = 0.0
            self._replan()
        self.tell()

    def tell(self) -> None:
        """Publish mode and health if either changed."""
        started, (mode, why) = self._options.last_started(), self._in_use()
        wrong, before = fault(started, time.monotonic(), self.plan.limit_s), self._told
        if before and (before.mode, before.why, before.healthy) == (mode, why, not wrong):
            return
        last_ns = int(time.time_ns() - (time.monotonic() - started) * 1e9) if started else 0
        self._told = PlegState(mode, why, not wrong, last_ns, wrong)
        self._options.on_state(self._told)

    def _in_use(self) -> tuple[str, str]:
        """The mode and why: evented only from when nothing that happens is found by a list any more."""
        if self.plan.mode is Mode.EVENTED and not self._options.believes():
            return Mode.GENERIC.value, LISTING
        return self.plan.mode.value, self.plan.why

    def _wish(self) -> Wish:
        suspect = time.monotonic() < self._suspect_until
        return Wish(self._options.mode, self._options.gate, self._stamps, suspect)

    def _replan(self) -> None:
        old, self.plan = self.plan, plan(self.runtime, self._wish())
        if old.period_s != self.plan.period_s:
            self._options.on_period()
        self.tell()
