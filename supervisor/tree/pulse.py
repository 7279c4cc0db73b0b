"""Whether the forkserver still answers: no clock, no process. Told what was heard and when, it says what to do.

Invariants: one that still imports has the time of a start; a kill is always preceded by a wake.
"""

import enum

from supervisor.tree.spec import Limits

PING_S = 2.0


class Verdict(enum.StrEnum):
    FINE = "fine"
    WAKE = "wake"
    """It may only be stopped: SIGCONT mends that at no cost."""
    KILL = "kill"


class Pulse:
    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._heard_at = now
        self._pinged_at: float | None = None
        self._loading = True
        self._woken_at: float | None = None

    def heard(self, loading: bool, now: float) -> None:
        self._heard_at, self._loading, self._woken_at = now, loading, None

    def ping_due(self, now: float) -> bool:
        """True when it is time for the next ping, which the caller then sends."""
        due = self._pinged_at is None or now - self._pinged_at >= PING_S
        if due:
            self._pinged_at = now
        return due

    def forgive(self, seconds: float) -> None:
        """The supervisor itself was stopped for that long."""
        self._heard_at += seconds
        if self._woken_at is not None:
            self._woken_at += seconds

    def verdict(self, now: float) -> Verdict:
        limit = self._limits.start_s if self._loading else self._limits.beat_s
        if now - self._heard_at < limit:
            return Verdict.FINE
        if self._woken_at is None:
            self._woken_at = now
            return Verdict.WAKE
        if now - self._woken_at < self._limits.beat_s:
            return Verdict.FINE
        self._woken_at = now
        return Verdict.KILL
