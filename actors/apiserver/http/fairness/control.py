"""Enforce priority and fairness: seats for short requests, open descriptors for long-running ones.

Requests take seats from the dispatcher, or wait for them here. Watches take none once their initial events are written,
streams take none at all, as upstream; a bound for each user leaves descriptors for all others
(`apiserver_longrunning_requests` counts them).
"""

import asyncio
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from actors.apiserver.api.errors import TooManyRequests
from actors.apiserver.api.request.user import User
from actors.apiserver.http.fairness.dispatcher import NOTHING, Dispatcher, Flow, Level, Outcome, State, Ticket
from actors.apiserver.http.fairness.levels import (
    EXEMPT,
    GLOBAL_DEFAULT,
    LIMITED,
    PROBES,
    TOTAL_SEATS,
    WORKLOAD_LOW,
    LevelSpec,
    Schema,
    Standing,
    borrowable_seats,
    nominal_seats,
    standing_of,
)
from actors.apiserver.http.fairness.metrics import FlowCounts, FlowMetrics
from protocols.process.deadlines import Deadlines
from protocols.process.rates import RetryAfter

WAIT_SECONDS = 15.0
"""The longest time in a queue, a quarter of the longest request's deadline, as upstream."""
FLOWS = 1024
"""Flows retained without a request, and users whose schemas are cached."""
TOO_MANY = "Too many requests, please try again later."
QUEUE_FULL, TIMED_OUT, CANCELLED = "queue-full", "time-out", "cancelled"
"""Reasons of rejections, as upstream calls them."""
HEALTH_PATHS = ("/healthz", "/livez", "/readyz")


class FlowControl:
    """Every request calls `enter`, and `leave` once it is answered. Bound to the loop that runs at the first wait."""

    def __init__(self, metrics: FlowMetrics) -> None:
        self._metrics = metrics
        self._dispatcher = Dispatcher([_level(spec) for spec in (EXEMPT, *LIMITED)], TOTAL_SEATS)
        self._known: dict[User, _CachedUser] = {}
        self._counts: dict[str, FlowCounts] = {}
        self._waiting: dict[Ticket, asyncio.Future[None]] = {}
        self._retries = {spec.name: RetryAfter() for spec in (EXEMPT, *LIMITED)}
        self._deadlines = Deadlines()
        metrics.limits({spec.name: nominal_seats(spec) for spec in LIMITED})

    def enter(self, user: User, resource: str, namespace: str, width: int, now: float) -> Ticket:
        """Admit a request: it executes, or it has to `wait`. Raises TooManyRequests when its queue is full."""
        known = self._known.get(user)
        if known is None:
            known = self._cache_user(user)
        standing = known.standing
        if known.flow is not None and resource not in standing.resources:
            return self._admit(known.flow, known.counts, width, now)
        return self._enter(standing.schema_of(resource), user.name, namespace, width, now)

    def enter_path(self, user: User, path: str, now: float) -> Ticket:
        """Admit a request for a path that is no resource. Health checks are exempt. Raises as `enter`."""
        if path.startswith(HEALTH_PATHS):
            return self._enter(PROBES, "", "", 1, now)
        return self.enter(user, "", "", 1, now)

    def leave(self, ticket: Ticket) -> None:
        """End a request: it is answered, failed, or its client left. Further calls have no effect."""
        state = ticket.state
        if state is State.DONE:
            return
        now = time.monotonic()
        outcome = self._dispatcher.leave(ticket, now)
        counts = self._counts[ticket.flow.key[0]]
        if state is State.EXECUTING:
            counts.ended(ticket.width)
        elif state is State.QUEUED:
            counts.queued -= 1
        if outcome is not NOTHING:
            self._notify(outcome, now)

    async def wait(self, ticket: Ticket, task: asyncio.Task[Any], seconds: float = WAIT_SECONDS) -> None:
        """Wait in the queue. Raises TooManyRequests after `seconds`, or when the level needs the place."""
        waiter = self._waiting[ticket] = asyncio.get_running_loop().create_future()
        reason = ""
        try:
            with self._deadlines.within(seconds, task):
                await waiter
        except TimeoutError:
            reason = TIMED_OUT
            raise self._too_many(ticket, time.monotonic()) from None
        except asyncio.CancelledError:
            reason = CANCELLED
            raise
        finally:
            del self._waiting[ticket]
            if reason and ticket.state is State.QUEUED:
                self._reject(ticket, reason, time.monotonic())
                self.leave(ticket)

    def _enter(self, schema: Schema, name: str, namespace: str, width: int, now: float) -> Ticket:
        self._forget_idle()
        return self._admit(self._flow(schema, name, namespace), self._counts_of(schema), width, now)

    def _flow(self, schema: Schema, name: str, namespace: str) -> Flow:
        return self._dispatcher.flow(schema.name, namespace if schema.by_namespace else name, schema.level.name)

    def _counts_of(self, schema: Schema) -> FlowCounts:
        counts = self._counts.get(schema.name)
        if counts is None:
            counts = self._counts[schema.name] = self._metrics.counts(schema.level.name, schema.name)
        return counts

    def _admit(self, flow: Flow, counts: FlowCounts, width: int, now: float) -> Ticket:
        ticket, outcome = self._dispatcher.enter(flow, width, now)
        if ticket.state is State.EXECUTING:
            counts.began(width, 0.0)
        elif ticket.state is State.QUEUED:
            counts.queued += 1
        if outcome is not NOTHING:
            self._notify(outcome, now, ticket)
        if ticket.state is State.REJECTED:
            self._reject(ticket, QUEUE_FULL, now)
            raise self._too_many(ticket, now)
        return ticket

    def _notify(self, outcome: Outcome, now: float, entering: Ticket | None = None) -> None:
        """Wake the requests whose turn has come, and those that were rejected from a queue."""
        for ticket in outcome.rejected:
            self._counts[ticket.flow.key[0]].queued -= 1
            self._reject(ticket, QUEUE_FULL, now)
            waiter = self._waiting.get(ticket)
            if waiter is not None and not waiter.done():
                waiter.set_exception(self._too_many(ticket, now))
        for ticket in outcome.started:
            counts = self._counts[ticket.flow.key[0]]
            if ticket is entering:
                continue  # counted as one that never waited
            counts.queued -= 1
            counts.began(ticket.width, now - ticket.arrived)
            waiter = self._waiting.get(ticket)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def _reject(self, ticket: Ticket, reason: str, now: float) -> None:
        self._metrics.rejected(self._counts[ticket.flow.key[0]], reason, now - ticket.arrived)

    def _too_many(self, ticket: Ticket, now: float) -> TooManyRequests:
        return TooManyRequests(TOO_MANY, retry_after=self._retries[ticket.flow.level.name].reject(now))

    def _cache_user(self, user: User) -> "_CachedUser":
        self._forget_idle()
        standing = standing_of(user)
        usual = standing.usual
        flow = None if usual.by_namespace else self._flow(usual, user.name, "")
        cached = self._known[user] = _CachedUser(standing, flow, self._counts_of(usual))
        return cached

    def _forget_idle(self) -> None:
        """Bound the memory. Users refer to flows, so both are dropped together."""
        if len(self._known) >= FLOWS or self._dispatcher.flows >= FLOWS:
            self._known.clear()
            self._dispatcher.forget_idle()


class _CachedUser(NamedTuple):
    """A user's schemas; `flow` is that of the usual one unless it differs by namespace."""

    standing: Standing
    flow: Flow | None
    counts: FlowCounts


def _level(spec: LevelSpec) -> Level:
    if spec.exempt:
        return Level(spec.name, float("inf"), float("inf"))
    nominal = nominal_seats(spec)
    return Level(spec.name, nominal, nominal + borrowable_seats(spec))


USER_SHARE = 4
"""One user may hold a quarter of the descriptors this process may open."""
MIN_DESCRIPTORS = 64
WATCH, STREAM = 1, 2
"""Descriptors: a stream (exec, attach, port-forward, log) is connected to its node as well."""
BOUNDED_LEVELS = (WORKLOAD_LOW, GLOBAL_DEFAULT)
"""Levels whose users are bounded: the plane's own processes and its admins are not."""


class LongRunning:
    """Descriptors of open watches and streams, by user."""

    def __init__(self, most: int = 0) -> None:
        """`most` descriptors of one user; 0 takes them from the limits of the process."""
        self._most = most or max(MIN_DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // USER_SHARE)
        self._open: dict[str, int] = {}

    def check(self, user: User, descriptors: int) -> None:
        """Raises TooManyRequests if the user can open no more."""
        if self._open.get(user.name, 0) + descriptors > self._most and standing_of(user).usual.level in BOUNDED_LEVELS:
            message = f"user {user.name[:256]!r} has too many watches and streams open: close some, then try again"
            raise TooManyRequests(message, retry_after=1)

    @contextmanager
    def held(self, user: User, descriptors: int) -> Iterator[None]:
        """Count a watch or stream as long as the block runs. Raises TooManyRequests."""
        self.check(user, descriptors)
        end = self.begin(user, descriptors)
        try:
            yield
        finally:
            end()

    def begin(self, user: User, descriptors: int) -> Callable[[], None]:
        """Count a watch or stream after `check`. Returns a function to call once, when it ends."""
        name = user.name
        self._open[name] = self._open.get(name, 0) + descriptors

        def end() -> None:
            left = self._open[name] - descriptors
            if left:
                self._open[name] = left
            else:
                del self._open[name]

        return end
