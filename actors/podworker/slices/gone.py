"""Whose slices are to be deleted, and when. Pure: told the time."""

from collections.abc import Iterable, Mapping

GRACE_S = 30.0
RETRY_FIRST_S, RETRY_MOST_S = 1.0, 300.0


class GoneDrivers:
    def __init__(self, grace: float = GRACE_S) -> None:
        self._grace = grace
        self._due: dict[str, float] = {}
        self._seen: set[str] = set()
        self._failures: dict[str, int] = {}

    def found(self, drivers: Iterable[str], connected: Mapping[str, bool], now: float) -> None:
        """Drivers that had slices when this process began: an earlier life may have missed their end."""
        for driver in drivers:
            self._seen.add(driver)
            if not connected.get(driver):
                self._due[driver] = now

    def observe(self, connected: Mapping[str, bool], now: float) -> None:
        """All that are registered. A driver that comes back in time keeps its slices; the time is not prolonged."""
        self._seen |= connected.keys()
        for driver in self._seen:
            if connected.get(driver):
                self._due.pop(driver, None)
                self._failures.pop(driver, None)
            else:
                self._due.setdefault(driver, now + self._grace)

    def due(self, now: float) -> list[str]:
        return sorted(driver for driver, at in self._due.items() if at <= now)

    def next_due(self) -> float | None:
        return min((at for at in self._due.values() if at != float("inf")), default=None)

    def wiped(self, driver: str) -> None:
        """It has none any more; when it registers again, all begins anew."""
        if driver in self._due:
            self._due[driver] = float("inf")
        self._failures.pop(driver, None)

    def failed(self, driver: str, now: float, jitter: float = 1.0) -> None:
        failures = self._failures.get(driver, 0)
        self._failures[driver] = failures + 1
        if driver in self._due:
            self._due[driver] = now + min(RETRY_FIRST_S * 2 ** min(failures, 9) * jitter, RETRY_MOST_S)
