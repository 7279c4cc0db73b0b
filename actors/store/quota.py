"""How much of its quota the store uses, and what that means. Pure; the writer measures the file now and then.

Beyond the quota only what deletes is done, as in etcd under its NOSPACE alarm. Long before, history gives way.
"""

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
