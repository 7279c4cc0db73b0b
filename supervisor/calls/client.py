"""Read the record of calls of a running plane: all of it once, or record by record as calls end.

records = ask(layout, lambda asking: read_calls(asking.bus, CallQuery("example.com/gpu")))
"""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from protocols.bus import Bus, BusError, DeadlineExceeded, Unavailable
from protocols.messages.calls import CALLS, CallRecord, CallsReply, CallsRequest
from protocols.messages.devices import OWNER
from supervisor.base.errors import NotRunning, SupervisorError
from supervisor.client.connection import check_not_adopted

TIMEOUT_S = 10.0
WAIT_S = 1.0
"""Time for which one request of a follower waits; calls in progress are reported as often."""
PAUSE_S = 0.05
"""Pause of a follower between two requests: a plugin may send a thousand lists a second."""
RECONNECT_S = 0.5


class CallQuery(msgspec.Struct, frozen=True):
    """Selection of recorded calls, by the resource or driver at the other end."""

    peer: str = ""
    """Resource or driver; empty = all."""
    show_secrets: bool = False
    """Ask for the values of environment variables, too. See docs/reference/calls.md for who may."""


ALL = CallQuery()


class CallBatch(msgspec.Struct, frozen=True):
    """Calls that a follower received at once."""

    records: tuple[CallRecord, ...]
    pending: tuple[CallRecord, ...]
    """Calls in progress."""
    restarted: bool = False
    """The device manager restarted: earlier records are lost."""


class CallReader:
    """A position in the record of one plane."""

    def __init__(self, bus: Bus, query: CallQuery = ALL) -> None:
        self._bus = bus
        self._query = query
        self._incarnation = 0
        self._after = 0

    async def read(self) -> CallBatch:
        """Return everything since the last read, and the calls in progress. Raises NotRunning or SupervisorError."""
        records: list[CallRecord] = []
        restarted = False
        while True:
            reply = await self._ask(0.0)
            restarted |= self._advance(reply)
            records += reply.records
            if not reply.more:
                return CallBatch(tuple(records), reply.pending, restarted)

    async def follow(self) -> AsyncIterator[CallBatch]:
        """Yield batches, forever: when calls end, and at least once a second.

        Goes on when the device manager restarts or hangs; raises SupervisorError if it rejects the request.
        """
        while True:
            try:
                reply = await self._ask(WAIT_S)
            except NotRunning:
                await asyncio.sleep(RECONNECT_S)
                continue
            restarted = self._advance(reply)
            yield CallBatch(reply.records, reply.pending, restarted)
            await asyncio.sleep(PAUSE_S)

    def _advance(self, reply: CallsReply) -> bool:
        restarted = self._incarnation not in (0, reply.incarnation)
        self._incarnation, self._after = reply.incarnation, reply.newest
        return restarted

    async def _ask(self, wait: float) -> CallsReply:
        request = CallsRequest(
            peer=self._query.peer,
            incarnation=self._incarnation,
            after=self._after,
            wait=wait,
            show_secrets=self._query.show_secrets,
        )
        try:
            return await self._bus.call(OWNER, CALLS, request, CallsReply, timeout=TIMEOUT_S + wait)
        except (Unavailable, DeadlineExceeded):
            raise NotRunning("the device manager does not answer; see `nodeplane status`") from None
        except BusError as error:
            raise SupervisorError(str(error)) from None


async def read_calls(bus: Bus, query: CallQuery = ALL) -> list[CallRecord]:
    """Return the records of all calls by their begin. A call in progress has an empty status. Raises UsageError."""
    check_not_adopted(bus)
    batch = await CallReader(bus, query).read()
    return sorted((*batch.records, *batch.pending), key=lambda record: record.began_ns)
