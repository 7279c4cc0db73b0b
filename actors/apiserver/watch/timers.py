"""Timers and flushes that many watches share."""

import asyncio
import heapq
import math
import time
from collections import deque
from typing import Protocol

SLOTS_A_SECOND = 4
FEW = 64
"""Cancelled slots that may always remain in the heap."""


class _AlarmTarget(Protocol):
    def alarm(self) -> None: ...


class Alarms:
    """Alarms of many watches on one timer of the event loop; those in the same quarter of a second share a slot.

    A timer of the loop for each bookmark and each end would cost a watch more memory than everything else. An alarm
    rings once, up to a quarter of a second late. Bound to the running loop at the first use.
    """

    def __init__(self) -> None:
        self._slots: dict[int, set[_AlarmTarget]] = {}
        self._order: list[int] = []
        """A heap of all slots. Cancelled ones remain until they are more than half of it."""
        self._ordered: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None

    def set(self, target: _AlarmTarget, at: float) -> int:
        """Call `target.alarm()` at loop time `at`. Return the slot for `cancel`."""
        slot = math.ceil(at * SLOTS_A_SECOND)
        self._slots.setdefault(slot, set()).add(target)
        if slot not in self._ordered:
            self._ordered.add(slot)
            heapq.heappush(self._order, slot)
            if self._order[0] == slot:
                self._arm()
        return slot

    def cancel(self, target: _AlarmTarget, slot: int) -> None:
        targets = self._slots.get(slot, set())
        targets.discard(target)
        if not targets:
            self._slots.pop(slot, None)
            if len(self._order) > FEW + 2 * len(self._slots):
                self._drop_cancelled()

    def _drop_cancelled(self) -> None:
        """Remove cancelled slots: after a storm of watches, thousands of them would keep memory pages in use."""
        self._order, self._ordered = list(self._slots), set(self._slots)
        heapq.heapify(self._order)
        if self._order:
            self._arm()
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        at = self._order[0] / SLOTS_A_SECOND
        self._timer = asyncio.get_running_loop().call_at(at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        slot = heapq.heappop(self._order)
        self._ordered.discard(slot)
        for target in self._slots.pop(slot, set()):
            target.alarm()
        if self._order and self._timer is None:
            self._arm()


class Flushable(Protocol):
    """A buffer that many changes of one turn of the event loop fill before it is written."""

    def flush(self) -> None:
        """Write what is pending, or a part of it. Called once for each time it was scheduled."""


TURN_S = 0.01
"""Time after which the rest of what is due waits for the next turn."""
LONG_TURN_S = 0.03
"""A turn that takes longer, as a single event is large, is followed by as much time for everything else."""


class Flusher:
    """Flush once in each turn of the event loop: events of one turn leave in one write to each watch.

    Callers schedule themselves once until they were flushed. A turn ends after TURN_S. Bound to the running loop at the
    first use.
    """

    def __init__(self) -> None:
        self._due: deque[Flushable] = deque()
        self._called = False
        """The loop calls `_flush` in its next turn."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def schedule(self, due: Flushable, wait: float = 0.0) -> None:
        """Flush `due` in the next turn, or in the first one after `wait` seconds."""
        if wait > 0:
            asyncio.get_running_loop().call_later(wait, self.schedule, due)
            return
        self._due.append(due)
        self._call()

    def _call(self) -> None:
        if not self._called:
            self._called = True
            if self._loop is None:
                self._loop = asyncio.get_running_loop()  # looked up once: it costs a system call each time
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        began = time.monotonic()
        try:
            for _ in range(len(self._due)):
                self._due.popleft().flush()
                if time.monotonic() >= began + TURN_S:
                    break
        finally:
            self._go_on(time.monotonic() - began)

    def _go_on(self, took: float) -> None:
        self._called = bool(self._due) and took > LONG_TURN_S
        if self._called:
            asyncio.get_running_loop().call_later(took, self._flush)
        elif self._due:
            self._call()


def chunk(events: list[bytes]) -> bytes:
    """Frame events as one chunk of a chunked body."""
    size = sum(map(len, events))
    return b"".join((b"%x\r\n" % size, *events, b"\r\n"))
