"""The newest events of the allocations stream, from which followers resume across restarts of its owner. Pure.

Invariant: marks are dense, so the floor is one below the oldest retained event.
"""

from collections import deque
from collections.abc import Iterable

from protocols.bus import Event, Item, Op, Value
from protocols.messages.devices import LedgerEvent, LedgerHistory, PodAllocation

RETAINED = 512


class AllocationHistory:
    """The newest events, bounded; part of the owner's checkpoint."""

    def __init__(self, mark: int, events: Iterable[LedgerEvent] = ()) -> None:
        self.mark = mark
        self._events = deque(events, maxlen=RETAINED)

    @property
    def floor(self) -> int:
        return self._events[0].mark - 1 if self._events else self.mark

    def append(self, event: LedgerEvent) -> None:
        self._events.append(event)
        self.mark = event.mark

    def since(self, mark: int) -> list[LedgerEvent] | None:
        """Return the events after `mark`; None if some are gone or the mark is not of this ledger."""
        if not self.floor <= mark <= self.mark:
            return None
        return [event for event in self._events if event.mark > mark]

    def retained(self, coming: Iterable[LedgerEvent] = ()) -> tuple[LedgerEvent, ...]:
        """Return the events for a checkpoint that is written with the events `coming`."""
        return tuple([*self._events, *coming][-RETAINED:])

    def as_message(self) -> LedgerHistory:
        return LedgerHistory(self.floor, tuple(self._events))


class AllocationSource:
    """The allocations as published, and the history that leads to them."""

    def __init__(self, items: dict[str, PodAllocation], history: AllocationHistory) -> None:
        self.items = items
        self._history = history

    def snapshot(self) -> Iterable[Item]:
        return [Item(uid, allocation) for uid, allocation in self.items.items()]

    def since(self, mark: int) -> Iterable[Event[Value]] | None:
        """Return the events after a mark, also one of an earlier incarnation."""
        events = self._history.since(mark)
        return None if events is None else [_stream_event(event) for event in events]


def _stream_event(event: LedgerEvent) -> Event[Value]:
    op = Op.DELETE if event.deleted else Op.UPSERT
    return Event(op, event.allocation.uid, None if event.deleted else event.allocation, mark=event.mark)
