"""Transitions that an inspection found though the event stream was up and told nothing of them. Pure.

A difference is a candidate at first: the event may only be late. After GRACE_NS it counts, once per event that should
have come: started, stopped, deleted. What changed while the stream was down is counted apart (cause stream_down), and
what the bus lost on the way as queue_drop. Changes that runtimes tell nothing of (a start that failed) never count.
"""

from collections import Counter
from dataclasses import dataclass, field

from actors.pleg.state_machine.lifecycle_events import ABSENT, EXITED, RUNNING, UNKNOWN, States
from protocols.wire import cri_pb2
from protocols.wire.event_numbers import EventNumber

GRACE_NS = 2 * 10**9
KEPT = 50_000
"""Reports remembered; beyond it the oldest are forgotten, which can only count too much."""
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
_TOLD: dict[int, str] = {
    cri_pb2.CONTAINER_STARTED_EVENT: "started",
    cri_pb2.CONTAINER_STOPPED_EVENT: "stopped",
    cri_pb2.CONTAINER_DELETED_EVENT: "deleted",
}


@dataclass
class MissedEvents:
    """All times are nanoseconds since the epoch, by our clock."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(cause, transition) -> how many."""
    up_since: int = 0
    """Since when the stream is up without a gap; 0: it is down."""
    cause: str = STREAM_DOWN
    """Why it was not up before `up_since`."""
    _expected: bool = False
    _told: dict[tuple[str, str], None] = field(default_factory=dict)
    _candidates: dict[tuple[str, str], int] = field(default_factory=dict)

    def opened(self, now: int, cause: str = STREAM_DOWN) -> None:
        """The stream opened, or (queue_drop) what it brought was lost up to now."""
        self.up_since, self.cause, self._expected = now, cause, True

    def down(self) -> None:
        self.up_since = 0
        self.cause = STREAM_DOWN

    def event(self, container_id: str, type_: int) -> None:
        if transition := _TOLD.get(type_, ""):
            key = (container_id, transition)
            self._told[key] = None
            self._candidates.pop(key, None)
            if len(self._told) > KEPT:
                del self._told[next(iter(self._told))]

    def found(self, old: States, new: States, since: int, now: int) -> bool:
        """An inspection showed `new` after `old`, known at `since` (0: first look at all). True: ask `settle` later."""
        if not since or not self._expected:
            return False
        told_all = 0 < self.up_since <= since
        for id_ in old.keys() | new.keys():
            for transition in _IMPLIED.get((old.get(id_, ABSENT), new.get(id_, ABSENT)), ()):
                self._one((id_, transition), told_all, now)
        return bool(self._candidates)

    def _one(self, key: tuple[str, str], told_all: bool, now: int) -> None:
        if key in self._told:
            return
        if told_all:
            self._candidates.setdefault(key, now)
        else:
            self.counts[(self.cause, key[1])] += 1

    def settle(self, now: int) -> int:
        """Count the candidates whose grace is over; returns how many of those are reason to distrust the runtime.

        A removal that nobody told of is none: CRI-O tells of no sandbox's, and it changes nothing that runs.
        """
        due = [key for key, at in self._candidates.items() if now - at >= GRACE_NS]
        for key in due:
            del self._candidates[key]
            self.counts[(RUNTIME, key[1])] += 1
        return sum(transition != "deleted" for _, transition in due)


class LostEvents:
    """`count` follows the numbers: it is exact as soon as an event after the gap arrives."""

    def __init__(self) -> None:
        self.count = 0
        self._last: EventNumber | None = None

    def received(self, position: EventNumber | None) -> None:
        if position is None:
            return
        last = self._last
        if last is None:
            self._last = position  # events before the first one were emitted before this process listened
        elif position.incarnation != last.incarnation:
            self._advance(position, position.number - 1)
        elif position.number > last.number:
            self._advance(position, position.number - last.number - 1)
        elif position.number < last.number:
            self.count = max(0, self.count - 1)  # a late one, counted as lost before; only chaos reorders events

    def _advance(self, position: EventNumber, lost: int) -> None:
        self.count += lost
        self._last = position
