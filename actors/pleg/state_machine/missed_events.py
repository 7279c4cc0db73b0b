"""Count events that should have arrived and did not. Pure.

MissedEvents compares inspections with received events:
- A transition found by inspection without its event is a candidate at first: the event may only be late.
- After GRACE_NS it counts, once per expected event: started, stopped, deleted.
- Changes while the stream was down count under cause stream_down, events dropped by the bus under queue_drop.
- Transitions for which runtimes send no event (a start that failed) never count.

LostEvents compares the numbers of received events. Inspections cannot find these: a container that was created and
removed within a gap leaves no trace. The number in the runtime's Status shows the loss of its newest events, which no
other follows. Only the embedded runtime numbers its events; for others it counts nothing.
"""

from collections import Counter

import msgspec

from actors.pleg.state_machine.lifecycle_events import ABSENT, EXITED, RUNNING, UNKNOWN, States
from protocols.bounded import BoundedMap
from protocols.messages.cri import EventNumber
from protocols.wire import cri_pb2

GRACE_NS = 2 * 10**9
MAX_REPORTED = 10_000
"""Received events retained; dropping the oldest can only count too much."""
RUNTIME, STREAM_DOWN, QUEUE_DROP = "runtime", "stream_down", "queue_drop"

_IMPLIED = {
    (ABSENT, RUNNING): ("started",),
    (UNKNOWN, RUNNING): ("started",),
    (ABSENT, EXITED): ("stopped",),
    (RUNNING, EXITED): ("stopped",),
    (EXITED, ABSENT): ("deleted",),
    (UNKNOWN, ABSENT): ("deleted",),
    (RUNNING, ABSENT): ("stopped", "deleted"),
}
_TRANSITIONS: dict[int, str] = {
    cri_pb2.CONTAINER_STARTED_EVENT: "started",
    cri_pb2.CONTAINER_STOPPED_EVENT: "stopped",
    cri_pb2.CONTAINER_DELETED_EVENT: "deleted",
}


class MissedEvents(msgspec.Struct):
    """Transitions that events should have reported, by cause. Times are ns since the epoch, by our clock."""

    counts: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    """(cause, transition) -> how many."""
    up_since: int = 0
    """Time since which the stream is up without a gap; 0 while it is down."""
    cause: str = STREAM_DOWN
    """The reason for the gap before `up_since`."""
    _expected: bool = False
    _reported: BoundedMap[tuple[str, str], None] = msgspec.field(default_factory=lambda: BoundedMap(MAX_REPORTED))
    _candidates: dict[tuple[str, str], int] = msgspec.field(default_factory=dict)

    def stream_opened(self, now: int, cause: str = STREAM_DOWN) -> None:
        """Record that the stream opened or, with cause queue_drop, that the bus dropped events up to now."""
        self.up_since, self.cause, self._expected = now, cause, True

    def stream_closed(self) -> None:
        self.up_since = 0
        self.cause = STREAM_DOWN

    def event(self, container_id: str, type_: int) -> None:
        if transition := _TRANSITIONS.get(type_, ""):
            key = (container_id, transition)
            self._reported[key] = None
            self._candidates.pop(key, None)

    def inspected(self, old: States, new: States, since: int, now: int) -> bool:
        """Compare the states before and after an inspection; return True if `settle` must be called later.

        `since` is the time up to which the pod was known before; 0 for the first observation, which never counts.
        """
        self.up_since = min(self.up_since, now)  # the clock may have gone back
        if not since or not self._expected:
            return False
        stream_was_up = 0 < self.up_since <= since
        for id_ in old.keys() | new.keys():
            for transition in _IMPLIED.get((old.get(id_, ABSENT), new.get(id_, ABSENT)), ()):
                self._record((id_, transition), stream_was_up, now)
        return bool(self._candidates)

    def _record(self, key: tuple[str, str], stream_was_up: bool, now: int) -> None:
        if key in self._reported:
            return
        if stream_was_up:
            self._candidates.setdefault(key, now)
        else:
            self.counts[(self.cause, key[1])] += 1

    def settle(self, now: int) -> int:
        """Count the candidates whose grace is over; return how many of them are reason to distrust the event stream.

        A removal is no such reason: CRI-O sends no event for a sandbox's, and nothing that runs changes.
        """
        due = [key for key, at in self._candidates.items() if not 0 <= now - at < GRACE_NS]
        for key in due:
            del self._candidates[key]
            self.counts[(RUNTIME, key[1])] += 1
        return sum(transition != "deleted" for _, transition in due)


class LostEvents:
    """`count` is exact as soon as an event after the gap arrives, or the number of the newest is reported."""

    def __init__(self) -> None:
        self.count = 0
        self._last: EventNumber | None = None
        self._arrived = True
        """False while the last event is known by its reported number only."""

    def received(self, position: EventNumber | None) -> bool:
        """Record an event; return True if events before it are missing."""
        before = self.count
        if position is not None:
            self._record(position)
        return self.count > before

    def missing(self, newest: EventNumber) -> bool:
        """Count events up to the reported `newest` that did not arrive as lost; return True if there are any.

        Call it when they had time to arrive.
        """
        last = self._last or newest  # events before the first report had no listener
        known = last.number if last.incarnation == newest.incarnation else 0
        lost = max(0, newest.number - known)
        if lost or self._last is None:
            self._advance(newest, lost)
            self._arrived = not lost
        return lost > 0

    def _record(self, position: EventNumber) -> None:
        last = self._last
        if last is None:
            self._last = position  # events before the first one were emitted before this process listened
        elif position.incarnation != last.incarnation:
            self._advance(position, position.number - 1)
        elif position.number > last.number:
            self._advance(position, position.number - last.number - 1)
        elif position.number < last.number or not self._arrived:
            self.count = max(0, self.count - 1)  # a late one, counted as lost before
            self._arrived = self._arrived or position.number == last.number

    def _advance(self, position: EventNumber, lost: int) -> None:
        self.count += lost
        self._last, self._arrived = position, True
