"""The state of a client's copy of a collection: where to resume, when to list again, how long to wait. Pure.

Rules (client-go's, but kinder to a server that was killed): a clean end, a lost or rejected connection, 429 and 5xx all
resume at the position; only 410, an event that does not decode, an unknown ERROR event, or 500 again and again lead to
a new list. The list is the beginning of a watch (KEP-3157), or a request of its own after such a watch failed.
"""

from enum import Enum

import msgspec

from protocols.kube.meta import Object, key_of, meta
from protocols.process.rates import backoff_delay

FIRST_S, MOST_S = 0.05, 2.0
AWAY_MOST_S = 0.5
"""Longest pause while nothing is known of the collection and its server is away."""
STEADY_S = 1.0
"""A watch that lasted this long clears the backoff of watches."""
QUIET_S = 10.0
"""A watch that lasted this long clears the backoff of lists: lists are dear."""


INITIAL_END = "k8s.io/initial-events-end"


class Next(Enum):
    """The next request of a reflector."""

    STREAM = "stream"
    """A watch that begins with all objects."""
    LIST = "list"
    WATCH = "watch"


class InitialEvents:
    """The objects at the beginning of a watch. They are the state only once `take` has returned True."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}

    def take(self, event: Object) -> bool:
        """Apply an event; True for the bookmark that ends them, whose resourceVersion is the state's."""
        obj = event["object"]
        if event["type"] == "BOOKMARK":
            return (meta(obj).get("annotations") or {}).get(INITIAL_END) == "true"
        if event["type"] == "DELETED":
            self.objects.pop(key_of(obj), None)
        else:
            self.objects[key_of(obj)] = obj
        return False


class Reflector(msgspec.Struct):
    """`position` is the resourceVersion up to which everything was applied; empty: a list is due."""

    position: str = ""
    failures: int = 0
    lists: int = 0
    """Lists so far, as a stream or not; 1 unless the position was lost."""
    streams: bool = True
    """The next list is the beginning of a watch."""

    @property
    def next(self) -> Next:
        if self.position:
            return Next.WATCH
        return Next.STREAM if self.streams else Next.LIST

    def listed(self, version: str) -> float:
        """Note an applied list. It resets no backoff: a server may list well and yet expire every watch."""
        self.position = version
        self.lists += 1
        self.streams = True
        return 0.0 if version else self._pause()

    def unstreamed(self) -> float:
        """Note an answer without the whole state: lists follow until one succeeds, the first at once."""
        self.streams = False
        return 0.0

    def away(self) -> float:
        """Note that there was no answer while nothing is known."""
        return min(self._pause(), AWAY_MOST_S)

    def moved(self, version: str) -> None:
        """Note an applied event or bookmark."""
        self.position = version

    def ended(self, lasted: float) -> float:
        """Note a clean end of the watch by the server; return the seconds to wait before the next."""
        if lasted < STEADY_S:
            return self._pause()
        self.failures = 0
        return 0.0

    def broken(self, lasted: float) -> float:
        """Note a lost or rejected connection, or an error that keeps the position; the first retry is immediate."""
        if lasted >= STEADY_S:
            self.failures = 0
        return self._pause()

    def expired(self, lasted: float) -> float:
        """Note that the position is gone (410), or cannot be trusted."""
        self.position = ""
        if lasted >= QUIET_S:
            self.failures = 0
        return self._pause()

    def _pause(self) -> float:
        self.failures += 1
        return 0.0 if self.failures == 1 else backoff_delay(self.failures - 1, FIRST_S, MOST_S)
