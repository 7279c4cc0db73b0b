"""Select the PLEG mode from the runtime's behavior, and publish mode and health as `pleg-state`."""

import asyncio
import time
from collections.abc import Callable

import msgspec

from actors.pleg.state_machine.mode import Mode, ModeInput, ModePlan, health_fault, next_health_check, plan
from actors.pleg.state_machine.status_merger import StatusMerger
from protocols.messages.cri import RuntimeState
from protocols.messages.pleg import PlegState
from protocols.process.tasks import wait_set

WAITING_FOR_RELIST = "events are merged after the next full relist"
SUSPECT_S = 60.0
"""Time in hint mode after the runtime missed an event, and until unusable timestamps are looked at again."""


class ModeSelectorOptions(msgspec.Struct, frozen=True):
    """Configured mode, and who gets the state."""

    mode: str
    """Configured: auto, evented, hint or generic."""
    gate: bool
    merger: StatusMerger
    on_state: Callable[[PlegState], None]


class ModeSelector:
    """The mode in use, with health; decides anew with each change of the runtime."""

    def __init__(self, options: ModeSelectorOptions) -> None:
        self._options = options
        self._stamps: bool | None = None
        self._suspect_until = self._stamps_due = 0.0
        self._published: PlegState | None = None
        self.last_started = 0.0
        """Monotonic start of the last successful relist; 0 before the first."""
        self._limit_changed = asyncio.Event()
        self._limit_since = 0.0
        """Monotonic time at which the limit of relists became shorter."""
        self.on_period: Callable[[], None] | None = None
        """Called when the period of relists has changed."""
        self.runtime = RuntimeState()
        self.plan: ModePlan = plan(self.runtime, self._input())

    @property
    def merges(self) -> bool:
        """True if the content of events may be merged: the runtime stamps its statuses, or evented is configured."""
        wanted = bool(self._stamps) or self._options.mode == Mode.EVENTED.value
        return wanted and self.plan.mode is Mode.EVENTED

    async def watch_health(self) -> None:
        """Publish health when it changes by time alone. A shorter limit brings the next check forward."""
        while True:
            now = time.monotonic()
            self._limit_changed.clear()
            check = next_health_check(self.last_started, now, self.plan.limit_s, self._limit_since)
            await wait_set(self._limit_changed, check)
            self.publish()

    def on_runtime(self, state: RuntimeState) -> None:
        self.runtime = state
        self._replan()

    def on_stamps(self, stamps: bool) -> None:
        if stamps != self._stamps:
            self._stamps, self._stamps_due = stamps, time.monotonic() + SUSPECT_S
            self._replan()

    def stamps_due(self) -> bool:
        """Return True once in SUSPECT_S without usable timestamps: the runtime's clock may have been set right."""
        now = time.monotonic()
        if self._stamps is not False or now < self._stamps_due:
            return False
        self._stamps_due = now + SUSPECT_S
        return True

    def on_missed_events(self) -> None:
        """Use hint mode for SUSPECT_S: the runtime sent no event for something."""
        self._suspect_until = time.monotonic() + SUSPECT_S
        self._replan()

    def on_relist(self) -> None:
        if self._suspect_until and time.monotonic() >= self._suspect_until:
            self._suspect_until = 0.0
            self._replan()
        self.publish()

    def publish(self) -> None:
        """Publish mode and health if either changed."""
        started, (mode, why) = self.last_started, self._in_use()
        wrong = health_fault(started, time.monotonic(), self.plan.limit_s, self._limit_since)
        before = self._published
        if before and (before.mode, before.why, before.healthy) == (mode, why, not wrong):
            return
        last_ns = int(time.time_ns() - (time.monotonic() - started) * 1e9) if started else 0
        self._published = PlegState(mode, why, not wrong, last_ns, wrong)
        self._options.on_state(self._published)

    def _in_use(self) -> tuple[str, str]:
        """Return the mode to publish and its reason; until the first trusted relist it is still generic."""
        if self.plan.mode is Mode.EVENTED and not self._options.merger.trusted:
            return Mode.GENERIC.value, WAITING_FOR_RELIST
        return self.plan.mode.value, self.plan.why

    def _input(self) -> ModeInput:
        events_missed = time.monotonic() < self._suspect_until
        return ModeInput(self._options.mode, self._options.gate, self._stamps, events_missed)

    def _replan(self) -> None:
        old, self.plan = self.plan, plan(self.runtime, self._input())
        if self.plan.limit_s < old.limit_s:
            self._limit_since = time.monotonic()
            self._limit_changed.set()
        if old.period_s != self.plan.period_s and self.on_period is not None:
            self.on_period()
        self.publish()
