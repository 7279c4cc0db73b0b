"""The newest events of one stream, bounded by count and by bytes. Pure."""

from collections import deque

from protocols.bus.frames import EventFrame

OVERHEAD = 128
"""Bytes an event costs besides key and body."""


class Ring:
    def __init__(self, count: int, size: int = 16 << 20) -> None:
        self._frames: deque[EventFrame] = deque(maxlen=count)
        self._size = size
        self._used = 0
        """Never less than the bytes held: what left by count is taken off only when the bound seems reached."""

    def __len__(self) -> int:
        return len(self._frames)

    def append(self, frame: EventFrame, size: int) -> None:
        """`size` is that of key and body."""
        self._frames.append(frame)
        self._used += size + OVERHEAD
        if self._used > self._size:
            self._trim()

    def _trim(self) -> None:
        """Down to half of the bytes, so that this stays rare."""
        frames = self._frames
        self._used = sum(map(cost, frames))
        if self._used > self._size:
            while frames and self._used > self._size // 2:
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
