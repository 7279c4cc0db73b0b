"""The newest events of one stream, bounded by count and by bytes. Pure."""

from collections import deque

from protocols.bus.frames import EventFrame

OVERHEAD = 128
"""Bytes an event costs besides key and body."""


class Ring:
    def __init__(self, count: int, size: int = 16 << 20) -> None:
        self._frames: deque[EventFrame] = deque()
        self._count = count
        self._size = size
        self._used = 0

    def __len__(self) -> int:
        return len(self._frames)

    def append(self, frame: EventFrame) -> None:
        frames = self._frames
        frames.append(frame)
        self._used += cost(frame)
        while len(frames) > self._count or self._used > self._size:
            self._used -= cost(frames.popleft())

    def after(self, seq: int) -> list[EventFrame] | None:
        """Events later than `seq`; None when some of them are gone. An empty ring knows nothing to be lost at its end:
        the caller compares with the stream's own position first."""
        frames = self._frames
        if not frames or frames[0].seq > seq + 1:
            return None
        return self._tail(seq)

    def _tail(self, seq: int) -> list[EventFrame]:
        tail: list[EventFrame] = []
        for frame in reversed(self._frames):
            if frame.seq <= seq:
                break
            tail.append(frame)
        tail.reverse()
        return tail


def cost(frame: EventFrame) -> int:
    return len(frame.value or b"") + len(frame.key) + OVERHEAD
