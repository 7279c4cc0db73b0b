"""Starts that failed and are not repeated at once: 10 to 15 s later, as by kubelet, on every runtime alike. Pure.

A crash has a back-off of its own (backoff.py); this is for what never ran. A pause belongs to the sandbox it came up
in: in another one the same start may well succeed.
"""

import random
from collections.abc import Callable

import msgspec

from actors.podworker.types import SECOND, Plan, Start

RETRY_S = 10.0
JITTER = 0.5
"""Up to so much of it is added, so that pods that failed together do not return together."""
SOON_S = 1.0
"""First pause after a fault that is likely to pass by itself; it doubles up to RETRY_S."""
SANDBOX = Start(name="", attempt=0)
"""Stands for the sandbox, as the steps of a plan do for containers."""


class Pause(msgspec.Struct, frozen=True):
    sandbox: str
    """The sandbox it was to start in; empty: there was none yet."""
    until_ns: int
    times: int
    existing: str = ""
    """Id of the container that was only to be started."""

    def holds(self, step: Start, now_ns: int) -> bool:
        """One that was made after all is not held: what failed is done."""
        return now_ns < self.until_ns and step.existing == self.existing


class Pauses:
    """`retry_s`: before what failed is tried again."""

    def __init__(self, retry_s: float = RETRY_S, jitter: Callable[[], float] = random.random) -> None:
        self._retry_s = retry_s
        self._jitter = jitter
        self._pauses: dict[str, Pause] = {}

    def failed(self, step: Start, sandbox: str, now_ns: int, soon: bool = False) -> Pause:
        name, before = step.name, self._pauses.get(step.name)
        times = before.times + 1 if before is not None and before.sandbox == sandbox else 1
        delay = self._retry_s * (1 + JITTER * self._jitter())
        if soon:
            delay = min(delay, SOON_S * 2 ** min(times - 1, 10))
        pause = Pause(sandbox, now_ns + int(delay * SECOND), times, step.existing)
        self._pauses[name] = pause
        return pause

    def passed(self, name: str) -> None:
        self._pauses.pop(name, None)

    def clear(self) -> bool:
        """What they failed on may be another now. False: there were none."""
        there = bool(self._pauses)
        self._pauses.clear()
        return there

    def applied(self, plan: Plan, now_ns: int) -> Plan:
        """The plan without what is too early; `wake_ns` says when it will not be."""
        if plan.create_sandbox >= 0 and (pause := self._holding(SANDBOX, plan, now_ns)):
            return msgspec.structs.replace(plan, start=(), create_sandbox=-1, wake_ns=_first(plan, pause))
        pauses = {step: self._holding(step, plan, now_ns) for step in plan.start}
        withheld = [pause for pause in pauses.values() if pause]
        if not withheld:
            return plan
        start = tuple(step for step in plan.start if not pauses[step])
        return msgspec.structs.replace(plan, start=start, wake_ns=_first(plan, *withheld))

    def _holding(self, step: Start, plan: Plan, now_ns: int) -> Pause | None:
        pause = self._pauses.get(step.name)
        return pause if pause and pause.sandbox == plan.sandbox and pause.holds(step, now_ns) else None


def _first(plan: Plan, *pauses: Pause) -> int:
    ends = [pause.until_ns for pause in pauses]
    return min((*ends, plan.wake_ns) if plan.wake_ns else ends)
