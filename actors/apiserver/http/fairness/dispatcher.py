"""Decide which request executes, which waits in a queue, and which is rejected. Pure: callers pass the time in seconds.

- A request takes `width` seats of its priority level while it executes. A level always has its nominal seats; beyond
  them it borrows while fewer than `total` seats are taken in the whole process.
- A flow (a user) holds at most FLOW_SEATS, so that others of its level find free seats at once.
- Within a level, the waiting flow that has been served least (in seat-seconds) goes first. If the level has no room
  for its next request, no other request of the level overtakes it: wide requests do not starve.
- Queues are bounded per flow and per level. A full level rejects the newest request of its longest queue.
- Work conserving: no request waits while its flow, its level and the process have room for it.
"""

import enum
import math
from collections import deque
from collections.abc import Iterable

import msgspec

FLOW_SEATS = 16
"""Seats of one flow: one widest list beside six small requests."""
MAX_WIDTH = 10
"""Seats of one request at most (upstream: 10)."""
FLOW_QUEUE = 50
"""Requests of one flow that wait (upstream: 50 in a queue)."""
LEVEL_QUEUE = 500
"""Requests of one level that wait."""
GUESSED_SECONDS = 0.003
"""Charged per seat when a request starts; the difference to its real time when it ends (upstream: 3 ms)."""


class State(enum.Enum):
    """State of a ticket; REJECTED and DONE are final."""

    QUEUED = enum.auto()
    EXECUTING = enum.auto()
    REJECTED = enum.auto()
    DONE = enum.auto()


QUEUED, EXECUTING = State.QUEUED, State.EXECUTING


class Level:
    """Seats and waiting flows of one priority level; `nominal` is infinite for the exempt one."""

    def __init__(self, name: str, nominal: float, most: float) -> None:
        self.name, self.nominal, self.most = name, nominal, most
        self.exempt = nominal == math.inf
        self.seats = 0
        self.queued = 0
        self.waiting: dict[Flow, None] = {}
        self.served = 0.0
        """Virtual time: how much service the flow that started last had received."""


class Flow:
    """Requests that share one queue. `executing`, `seats` and `queue` describe the present, `served` the past."""

    __slots__ = ("executing", "key", "level", "queue", "seats", "served")

    def __init__(self, key: tuple[str, str], level: Level) -> None:
        self.key, self.level = key, level
        self.executing = self.seats = 0
        self.served = 0.0
        self.queue: deque[Ticket] = deque()

    @property
    def idle(self) -> bool:
        return not self.executing and not self.queue


class Ticket:
    """One request. `arrived` and `started` are times in seconds."""

    __slots__ = ("arrived", "flow", "started", "state", "width")

    def __init__(self, flow: Flow, width: int, now: float) -> None:
        self.flow = flow
        self.width = width
        self.arrived = now
        self.started = now
        self.state = QUEUED


class Outcome(msgspec.Struct):
    """Tickets whose state changed because of another one."""

    started: list[Ticket] = []
    rejected: list[Ticket] = []


NOTHING = Outcome()


class Dispatcher:
    """All levels of one process. `enter` every request, and `leave` with it once, whatever its state is."""

    def __init__(self, levels: Iterable[Level], total: int) -> None:
        self.levels = {level.name: level for level in levels}
        self.total = total
        self.seats = 0
        self.queued = 0
        self._flows: dict[tuple[str, str], Flow] = {}

    def flow(self, schema: str, distinguisher: str, level: str) -> Flow:
        """Return the flow of a schema and a user or namespace."""
        key = (schema, distinguisher)
        flow = self._flows.get(key)
        if flow is None:
            flow = self._flows[key] = Flow(key, self.levels[level])
        return flow

    @property
    def flows(self) -> int:
        """Number of retained flows."""
        return len(self._flows)

    def forget_idle(self) -> None:
        """Drop the flows without a request; callers must not use these any more."""
        self._flows = {key: flow for key, flow in self._flows.items() if not flow.idle}

    def enter(self, flow: Flow, width: int, now: float) -> tuple[Ticket, Outcome]:
        """Start, queue or reject a request; the ticket's state says which."""
        ticket = Ticket(flow, width, now)
        level = flow.level
        if flow.served < level.served and flow.idle:
            flow.served = level.served  # nobody saves up service while idle
        if level.exempt or (not level.queued and self._fits_flow(flow, width) and self._fits(level, width)):
            self._start(ticket, now)
            return ticket, NOTHING
        outcome = Outcome([], [])
        if not self._room(flow, outcome):
            ticket.state = State.REJECTED
            return ticket, outcome
        self._queue(ticket)
        self._dispatch(level, now, outcome)
        return ticket, outcome

    def leave(self, ticket: Ticket, now: float) -> Outcome:
        """End a request: it is answered, or its client gave up waiting."""
        state = ticket.state
        ticket.state = State.DONE
        if state is EXECUTING:
            self._stop(ticket, now)
        elif state is QUEUED:
            self._unqueue(ticket)
        if not self.queued or state not in (EXECUTING, QUEUED):
            return NOTHING
        outcome = Outcome([], [])
        self._dispatch(ticket.flow.level, now, outcome)
        for level in self.levels.values():
            if level.queued and level is not ticket.flow.level:
                self._dispatch(level, now, outcome)
        return outcome

    def _fits_flow(self, flow: Flow, width: int) -> bool:
        return not flow.executing or flow.seats + width <= FLOW_SEATS

    def _fits(self, level: Level, width: int) -> bool:
        """Return True if a level has room; one with nothing under way takes any width, however small it is."""
        seats = level.seats + width
        if seats <= level.nominal or not level.seats:
            return True
        return seats <= level.most and self.seats + width <= self.total

    def _room(self, flow: Flow, outcome: Outcome) -> bool:
        """Return True if the flow may queue a request; a full level makes room in its longest queue."""
        if len(flow.queue) >= FLOW_QUEUE:
            return False
        if flow.level.queued < LEVEL_QUEUE:
            return True
        longest = max(flow.level.waiting, key=lambda waiting: len(waiting.queue))
        if len(longest.queue) <= len(flow.queue) + 1:
            return False
        victim = longest.queue[-1]
        self._unqueue(victim)
        victim.state = State.REJECTED
        outcome.rejected.append(victim)
        return True

    def _queue(self, ticket: Ticket) -> None:
        flow, level = ticket.flow, ticket.flow.level
        flow.queue.append(ticket)
        level.waiting[flow] = None
        level.queued += 1
        self.queued += 1

    def _unqueue(self, ticket: Ticket) -> None:
        flow, level = ticket.flow, ticket.flow.level
        flow.queue.remove(ticket)
        if not flow.queue:
            del level.waiting[flow]
        level.queued -= 1
        self.queued -= 1

    def _dispatch(self, level: Level, now: float, outcome: Outcome) -> None:
        while level.queued:
            able = [flow for flow in level.waiting if self._fits_flow(flow, flow.queue[0].width)]
            if not able:
                return
            ticket = min(able, key=lambda flow: flow.served).queue[0]
            if not self._fits(level, ticket.width):
                return
            self._unqueue(ticket)
            self._start(ticket, now)
            outcome.started.append(ticket)

    def _start(self, ticket: Ticket, now: float) -> None:
        flow, width = ticket.flow, ticket.width
        level = flow.level
        if flow.served > level.served:
            level.served = flow.served
        flow.served += width * GUESSED_SECONDS
        flow.executing += 1
        flow.seats += width
        level.seats += width
        if not level.exempt:
            self.seats += width
        ticket.state = EXECUTING
        ticket.started = now

    def _stop(self, ticket: Ticket, now: float) -> None:
        flow, width = ticket.flow, ticket.width
        level = flow.level
        flow.served += width * (now - ticket.started - GUESSED_SECONDS)
        flow.executing -= 1
        flow.seats -= width
        level.seats -= width
        if not level.exempt:
            self.seats -= width
