"""The bound of what waits in the queues of all watches of a process."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

BACKLOG_BYTES = 128 * 1024 * 1024


class _Queue(Protocol):
    size: int

    def give_up(self) -> None:
        """End the watch and drop its queue."""


class Backlog:
    """Events in the queues of watches whose clients do not keep up. One that several queues share counts once.

    Above the limit the watches with the longest queues end, until a quarter of the limit is free.
    """

    def __init__(self, limit: int = BACKLOG_BYTES) -> None:
        self.size = 0
        self._limit = limit
        self._copies: defaultdict[int, int] = defaultdict(int)
        """Queues that hold an event, by its id."""
        self._queues: set[_Queue] = set()

    def add(self, queue: _Queue, data: bytes) -> None:
        """Count an event that was queued. It may end the watch."""
        self._queues.add(queue)
        self._copies[id(data)] += 1
        if self._copies[id(data)] == 1:
            self.size += len(data)
            if self.size > self._limit:
                self._relieve()

    def drop(self, queue: _Queue, events: Iterable[bytes]) -> None:
        """Count a queue as empty that held these events."""
        self._queues.discard(queue)
        for data in events:
            self._copies[id(data)] -= 1
            if not self._copies[id(data)]:
                del self._copies[id(data)]
                self.size -= len(data)

    def _relieve(self) -> None:
        for queue in sorted(self._queues, key=lambda each: each.size, reverse=True):
            queue.give_up()
            if self.size <= self._limit * 3 // 4:
                return
