"""Whether the node is Ready: short absences of runtime or pleg (a restart) do not count. Pure."""

GRACE_S = 30.0
"""Upstream's patience with a silent runtime."""


class Readiness:
    """Times are monotonic seconds."""

    def __init__(self) -> None:
        self._last_good: float | None = None
        self.faults: tuple[str, ...] = ("container runtime status check may not have completed yet",)

    def adopt(self, now: float) -> None:
        """The API shows Ready from an earlier life of this process: that counts for the grace."""
        if self._last_good is None:
            self._last_good = now

    def observe(self, faults: tuple[str, ...], now: float) -> None:
        """`faults`: what is wrong right now, empty when all is well; called on every change."""
        if not faults or not self.faults:
            self._last_good = now
        self.faults = faults

    @property
    def good(self) -> bool:
        """Right now, without any grace."""
        return not self.faults

    def ready(self, now: float) -> bool:
        return self.good or (self._last_good is not None and now - self._last_good < GRACE_S)

    def recheck_in(self, now: float) -> float | None:
        """Seconds after which the grace ends; None when nothing will change by itself."""
        if self.good or self._last_good is None or not self.ready(now):
            return None
        return GRACE_S - (now - self._last_good)
