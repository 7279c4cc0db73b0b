"""The newest events of one stream as they were sent, bounded by count and by bytes. Pure."""

from collections import deque

OVERHEAD = 64
"""Bytes an event costs besides its own."""


class Ring:
    """Keeps bytes, not structs: one object an event, and nothing else of a publish lives on."""

    def __init__(self, count: int, size: int = 16 << 20) -> None:
        self._events: deque[bytes] = deque(maxlen=count)
        self._size = size
        self._used = 0
        """Never less than the bytes held: what left by count is taken off only when the bound seems reached."""

    def __len__(self) -> int:
        return len(self._events)

    def append(self, event: bytes) -> None:
        self._events.append(event)
        self._used += len(event) + OVERHEAD
        if self._used > self._size:
            self._trim()

    def newest(self, count: int) -> list[bytes] | None:
        """The last `count` events, oldest first; None when some of them are gone."""
        if count > len(self._events):
            return None
        return [self._events[index] for index in range(-count, 0)]

    def _trim(self) -> None:
        """Down to half of the bytes, so that this stays rare."""
        events = self._events
        self._used = sum(map(len, events)) + OVERHEAD * len(events)
        if self._used > self._size:
            while events and self._used > self._size // 2:
                self._used -= len(events.popleft()) + OVERHEAD
