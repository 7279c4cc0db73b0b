"""The newest ledger events, bounded; part of the checkpoint. Pure.

Invariant: marks are dense, so the floor is one below the oldest kept event.
"""

from collections import deque
from collections.abc import Iterable

from protocols.messages.devices import LedgerEvent

KEPT = 512


class History:
    def __init__(self, mark: int, events: Iterable[LedgerEvent] = ()) -> None:
        self.mark = mark
        self._events = deque(events, maxlen=KEPT)

    @property
    def floor(self) -> int:
        return self._events[0].mark - 1 if self._events else self.mark

    def append(self, event: LedgerEvent) -> None:
        self._events.append(event)
        self.mark = event.mark

    def since(self, mark: int) -> list[LedgerEvent] | None:
        """Events after `mark`; None when some are gone or the mark is none of ours."""
        if not self.floor <= mark <= self.mark:
            return None
        return [event for event in self._events if event.mark > mark]

    def kept(self, coming: Iterable[LedgerEvent] = ()) -> tuple[LedgerEvent, ...]:
        """What a checkpoint keeps when `coming` is written with it."""
        return tuple([*self._events, *coming][-KEPT:])
