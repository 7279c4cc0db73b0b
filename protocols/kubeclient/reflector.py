"""The state of a client's copy of a collection: where to resume, when to list again, how long to wait. Pure.

Rules (client-go's, but kinder to a server that was killed): a clean end, a lost or rejected connection, 429 and 5xx all
resume at the position; only 410, an event that does not decode, or an unknown ERROR event lead to a new list.
"""

from enum import Enum

import msgspec

from protocols.process.rates import backoff_delay

FIRST_S, MOST_S = 0.05, 2.0
STEADY_S = 1.0
"""A watch that lasted this long clears the backoff of watches."""
QUIET_S = 10.0
"""A watch that lasted this long clears the backoff of lists: lists are dear."""


class Next(Enum):
    LIST = "list"
    WATCH = "watch"


class Reflector(msgspec.Struct):
    """`position` is the resourceVersion up to which everything was applied; empty: a list is due."""

    position: str = ""
    failures: int = 0
    lists: int = 0
    """Lists so far; 1 unless the position was lost."""

    @property
    def next(self) -> Next:
        return Next.WATCH if self.position else Next.LIST

    def listed(self, version: str) -> float:
        """Note an applied list. It resets no backoff: a server may list well and yet expire every watch."""
        self.position = version
        self.lists += 1
        return 0.0 if version else self._pause()

    def moved(self, version: str) -> None:
        """Note an applied event or bookmark."""
        self.position = version

    def ended(self, lasted: float) -> float:
        """The server ended the watch cleanly; seconds to wait before the next."""
        if lasted < STEADY_S:
            return self._pause()
        self.failures = 0
        return 0.0

    def broken(self, lasted: float) -> float:
        """Connection lost or rejected, or an error that leaves the position good. The first retry is immediate."""
        if lasted >= STEADY_S:
            self.failures = 0
        return self._pause()

    def expired(self, lasted: float) -> float:
        """The position is gone (410), or cannot be trusted."""
        self.position = ""
        if lasted >= QUIET_S:
            self.failures = 0
        return self._pause()

    def _pause(self) -> float:
        self.failures += 1
        return 0.0 if self.failures == 1 else backoff_delay(self.failures - 1, FIRST_S, MOST_S)
