"""Timers and flushes that many watches share."""

import asyncio
import heapq
import math
from typing import Protocol

SLOTS_A_SECOND = 4
FEW = 64
"""Cancelled slots that may stay in the heap in any case."""


class AlarmTarget(Protocol):
    def alarm(self) -> None: ...


class Alarms:
    """Bound to the running loop when first used. A sleeper is woken once, up to a quarter of a second late."""

    def __init__(self) -> None:
        self._slots: dict[int, set[AlarmTarget]] = {}
        self._order: list[int] = []
        """Every slot once, as a heap; cancelled ones stay until they are more than half of it."""
        self._ordered: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None

    def set(self, sleeper: AlarmTarget, at: float) -> int:
        """Call `sleeper.alarm()` at loop time `at`. Returns the slot, for `cancel`."""
        slot = math.ceil(at * SLOTS_A_SECOND)
        self._slots.setdefault(slot, set()).add(sleeper)
        if slot not in self._ordered:
            self._ordered.add(slot)
            heapq.heappush(self._order, slot)
            if self._order[0] == slot:
                self._arm()
        return slot

    def cancel(self, sleeper: AlarmTarget, slot: int) -> None:
        sleepers = self._slots.get(slot, set())
        sleepers.discard(sleeper)
        if not sleepers:
            self._slots.pop(slot, None)
            if len(self._order) > FEW + 2 * len(self._slots):
                self._drop_cancelled()

    def _drop_cancelled(self) -> None:
        """Forget cancelled slots: after a storm of watches, thousands of them would pin the memory between them."""
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
        for sleeper in self._slots.pop(slot, set()):
            sleeper.alarm()
        if self._order and self._timer is None:
            self._arm()


class Flushable(Protocol):
    def flush(self) -> None:
        """Write what is pending. Called once for each time it was wanted."""


class Flusher:
    """Bound to the running loop when first used. Who wants to be flushed says so once, until it has been."""

    def __init__(self) -> None:
        self._due: list[Flushable] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def schedule(self, due: Flushable) -> None:
        if not self._due:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()  # a system call each time it is asked
            self._loop.call_soon(self._flush)
        self._due.append(due)

    def _flush(self) -> None:
        due, self._due = self._due, []
        for each in due:
            each.flush()


def chunk(events: list[bytes]) -> bytes:
    """One chunk of a chunked body."""
    size = sum(map(len, events))
    return b"".join((b"%x\r\n" % size, *events, b"\r\n"))
