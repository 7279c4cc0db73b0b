"""Wall time in nanoseconds that never stands still and never goes back."""

import time
from collections.abc import Callable


class Clock:
    """Each reading is later than every earlier one, and than every stamp that was observed from disk."""

    def __init__(self, wall: Callable[[], int] = time.time_ns) -> None:
        self._wall = wall
        self._last = 0

    def next(self) -> int:
        self._last = max(self._last + 1, self._wall())
        return self._last

    def observe(self, stamp: int) -> None:
        """Readings are later than `stamp` from now on."""
        self._last = max(self._last, stamp)
