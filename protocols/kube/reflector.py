"""How a client keeps a copy of a collection: where to resume, when to list again, how long to wait. Pure.

Rules (client-go's): a clean end, a lost connection, a refused one, 429 and 5xx all resume at the position; only 410,
an event that does not decode, or an ERROR event nobody knows lead to a new list.
"""

from dataclasses import dataclass
from enum import Enum

FIRST_S, MOST_S = 0.05, 2.0
QUIET_S = 10.0
"""A watch that lasted this long clears the back-off."""


class Next(Enum):
    LIST = "list"
    WATCH = "watch"


@dataclass
class Reflector:
    """`position` is the resourceVersion everything up to which was taken in; empty: a list is due."""

    position: str = ""
    failures: int = 0
    lists: int = 0
    """Lists so far; 1 unless the position was lost."""

    @property
    def next(self) -> Next:
        return Next.WATCH if self.position else Next.LIST

    def listed(self, version: str) -> None:
        self.position = version
        self.lists += 1
        self.failures = 0

    def moved(self, version: str) -> None:
        """An event or bookmark was taken in."""
        if version:
            self.position = version

    def ended(self, lasted: float) -> float:
        """The server ended the watch cleanly; seconds to wait before the next."""
        return self._pause() if lasted < 1.0 else self._rested()

    def broken(self, lasted: float) -> float:
        """Connection lost, refused, or an error that leaves the position good. The first retry is immediate."""
        if lasted >= QUIET_S:
            self.failures = 0
        return self._pause()

    def expired(self) -> float:
        """The position is gone (410), or cannot be trusted."""
        self.position = ""
        return self._pause()

    def _rested(self) -> float:
        self.failures = 0
        return 0.0

    def _pause(self) -> float:
        self.failures += 1
        return 0.0 if self.failures == 1 else min(MOST_S, FIRST_S * 2.0 ** min(self.failures - 2, 10))
