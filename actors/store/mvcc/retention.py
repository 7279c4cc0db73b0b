"""How much of its quota the store uses, and what that means. Pure; the writer measures the file now and then.

Beyond the quota only what deletes is done, as in etcd under its NOSPACE alarm. Long before, history gives way.
"""

from collections import deque

from actors.store.model.options import StoreOptions

MEASURE_BYTES = 1024 * 1024
"""Bytes written after which the file is measured again."""
PRESSED = 0.75
"""Share of the quota from which on little history is kept."""
PRESSED_HISTORY = 1000
"""Revisions kept then."""


class Quota:
    def __init__(self, quota: int) -> None:
        """`quota`: bytes; 0 = none."""
        self._quota = quota
        self._since = MEASURE_BYTES
        self.used = 0
        """Bytes of the file in use, as far as is known."""

    @property
    def exceeded(self) -> bool:
        return 0 < self._quota <= self.used

    @property
    def pressed(self) -> bool:
        return 0 < PRESSED * self._quota <= self.used

    @property
    def due(self) -> bool:
        """The file is to be measured."""
        return self._quota > 0 and (self.exceeded or self._since >= MEASURE_BYTES)

    def wrote(self, size: int) -> None:
        self._since += size
        self.used += size

    def measured(self, used: int) -> None:
        self.used, self._since = used, 0

    def history(self, most: int) -> int:
        """Return how many revisions of history may be kept; `most` without need."""
        if self.exceeded:
            return 0
        return min(most, PRESSED_HISTORY) if self.pressed else most


class Retention:
    """Decides, from a sample of the revision now and then, how far to compact. Pure."""

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._samples: deque[tuple[float, int]] = deque()

    def target(self, now: float, revision: int, most: int | None = None) -> int:
        """The revision to compact to; 0 or an old one when there is nothing to do. `most`: revisions that may be kept
        while space is short."""
        self._samples.append((now, revision))
        aged = 0
        while self._samples and self._samples[0][0] <= now - self._options.history_seconds:
            aged = self._samples[0][1]
            if len(self._samples) > 1 and self._samples[1][0] > now - self._options.history_seconds:
                break
            self._samples.popleft()
        by_age = min(aged, revision - self._options.history_least)
        return max(by_age, revision - (self._options.history_most if most is None else most))
