"""Decide how much history is retained, and when the quota is exceeded. Pure.

- History is retained by age and number of revisions (Retention).
- Under pressure, at PRESSURE_SHARE of the quota, only PRESSURE_HISTORY revisions are retained.
- Beyond the quota only deletions are accepted, as in etcd under its NOSPACE alarm.
"""

from collections import deque

from actors.store.model.options import StoreOptions

MEASURE_BYTES = 1024 * 1024
"""Bytes written after which the writer measures the file again."""
PRESSURE_SHARE = 0.75
"""Share of the quota from which on little history is retained."""
PRESSURE_HISTORY = 1000
"""Revisions retained under pressure."""


class Quota:
    """Bytes of the file against its quota; measured now and then, estimated between."""

    def __init__(self, quota: int) -> None:
        # Bytes; 0 = unlimited.
        self._quota = quota
        self._since = MEASURE_BYTES
        self.used = 0
        """Bytes of the file in use, estimated between measurements."""

    @property
    def exceeded(self) -> bool:
        return 0 < self._quota <= self.used

    @property
    def under_pressure(self) -> bool:
        return 0 < PRESSURE_SHARE * self._quota <= self.used

    @property
    def due(self) -> bool:
        """True if the file must be measured."""
        return self._quota > 0 and (self.exceeded or self._since >= MEASURE_BYTES)

    def wrote(self, size: int) -> None:
        self._since += size
        self.used += size

    def measured(self, used: int) -> None:
        self.used, self._since = used, 0

    def history(self, most: int) -> int:
        """Return how many revisions of history may be retained; `most` without pressure."""
        if self.exceeded:
            return 0
        return min(most, PRESSURE_HISTORY) if self.under_pressure else most


class Retention:
    """Decides from periodic samples of the revision how far to compact."""

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._samples: deque[tuple[float, int]] = deque()

    def target(self, now: float, revision: int, most: int | None = None) -> int:
        """Return the revision to compact to; 0 or an already compacted one if there is nothing to do.

        `most` overrides the largest number of revisions to retain.
        """
        self._samples.append((now, revision))
        aged = 0
        while self._samples and self._samples[0][0] <= now - self._options.history_seconds:
            aged = self._samples[0][1]
            if len(self._samples) > 1 and self._samples[1][0] > now - self._options.history_seconds:
                break
            self._samples.popleft()
        by_age = min(aged, revision - self._options.history_min_revisions)
        return max(by_age, revision - (self._options.history_max_revisions if most is None else most))
