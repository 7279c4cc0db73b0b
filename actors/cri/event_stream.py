"""Keep GetContainerEvents open: state of the stream, backoff, and reading its messages.

connecting --headers or message--> streaming --error, EOF--> broken --delay--> connecting
connecting --UNIMPLEMENTED--> unsupported --60 s--> connecting
unsupported --end of the connection--> broken
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from enum import Enum

import grpc
import grpc.aio
import msgspec

from actors.cri.grpc_calls import ServerStream
from actors.cri.operations import OPERATIONS
from actors.cri.runtime_client import RuntimeChannel
from protocols.process.tasks import awaited, wait_set

STABLE_S = 30.0
"""A stream that lasted this long clears the count of failures; a shorter one does not, so that a runtime that accepts
and breaks at once cannot cause a loop without delay."""

FALLEN_BACK = 5
"""Consecutive failures from which status and metrics report that events are given up for now (retries continue)."""


def retry_delay(failures: int) -> float:
    """Return seconds to wait after the n-th consecutive failure: 0, 1, 2, 4, 8, 16, 32, 64, then 60 (KEP-3386)."""
    if failures <= 1:
        return 0.0
    if failures <= 8:
        return float(2 ** (failures - 2))
    return 60.0


PROBE_UNSUPPORTED_S = 60.0
"""Period of attempts with a runtime that has no event stream: containerd answers UNIMPLEMENTED while it starts, too."""


class Phase(Enum):
    """State of the event stream; UNSUPPORTED also waits, since a runtime may be replaced."""

    CONNECTING = "connecting"
    STREAMING = "streaming"
    BROKEN = "broken"
    UNSUPPORTED = "unsupported"


class EventConnection(msgspec.Struct):
    """State of the event stream. Pure: callers pass the time in monotonic seconds."""

    phase: Phase = Phase.CONNECTING
    failures: int = 0
    since: float = 0.0
    """Time at which the runtime opened the stream or answered that it has none."""

    def opened(self, now: float) -> bool:
        """Record headers or a message; True if the stream was not open before."""
        if self.phase is Phase.STREAMING:
            return False
        self.phase = Phase.STREAMING
        self.since = now
        return True

    def failed(self, now: float) -> float:
        """Record a failure to open, or the end of the stream; return seconds until the next attempt."""
        if self.phase in (Phase.STREAMING, Phase.UNSUPPORTED) and now - self.since >= STABLE_S:
            self.failures = 0
        self.failures += 1
        self.phase = Phase.BROKEN
        return retry_delay(self.failures)

    def unsupported(self, now: float) -> None:
        """Record that the runtime has no event stream."""
        if self.phase is not Phase.UNSUPPORTED:
            self.phase, self.since = Phase.UNSUPPORTED, now

    def connecting(self) -> None:
        if self.phase is not Phase.UNSUPPORTED:
            self.phase = Phase.CONNECTING


EARLY_S = 0.25
"""Shortest time between a failure and an early attempt, made when the runtime answers again."""
SILENT_S = 2.0
"""A server that sends no headers before its first event (grpc-go) counts as streaming after this time, if it answers
another call meanwhile: without an event stream it would have sent an error."""
ANSWER_S = 5.0
SETTLE_S = 0.02
"""The status of a call that was rejected may follow its headers in another segment."""
ENDED = "the runtime ended the event stream"
DISCONNECTED = "the runtime closed its connection"
NO_EVENTS = "the runtime has no event stream"
ENDED_AT_ONCE = f"{ENDED} at once: it may have events turned off (CRI-O: enable_pod_events = true)"


class EventStreamOptions(msgspec.Struct, frozen=True):
    """Channel of the stream, and who gets its messages."""

    channel: RuntimeChannel
    """Channel for events only: it is replaced at every attempt."""
    on_message: Callable[[bytes], None]
    on_change: Callable[[EventConnection, str], None]
    """Called with the state, and the reason if the stream is not open."""


class EventStream:
    """Opens the stream again and again; `run` is its only task."""

    def __init__(self, options: EventStreamOptions) -> None:
        self._options = options
        self.connection = EventConnection()
        self._again = asyncio.Event()
        self._call: ServerStream | None = None
        self._cut = ""

    def try_again(self) -> None:
        """Skip the rest of the delay: the runtime answers again, or is another one."""
        self._again.set()

    def cut(self, reason: str) -> None:
        """End the stream from this side, as a failure."""
        if self._call is not None:
            self._cut = reason
            self._call.cancel()

    async def run(self) -> None:
        while True:
            delay = await self._attempt()
            if delay > 0:
                await self._pause(delay)
            self._options.channel.renew()
            self.connection.connecting()

    async def _attempt(self) -> float:
        self._cut = ""
        try:
            was_open = await self._read()
            return self._broken(self._cut or (ENDED if was_open else ENDED_AT_ONCE))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return await self._unsupported()
            return self._broken(self._cut or f"{error.code().name}: {error.details()}")

    async def _read(self) -> bool:
        """Read until the stream ends; return True if it was open before."""
        call = self._call = await self._options.channel.events()
        opening = awaited(self._opened(call))
        try:
            while (message := await call.read()) is not None:
                self._mark_open()
                self._options.on_message(message)
        finally:
            self._call = None
            opening.cancel()
            call.cancel()
        return self.connection.phase is Phase.STREAMING

    async def _opened(self, call: ServerStream) -> None:
        """Mark the stream open at its headers, unless they belong to an immediate error.

        A runtime that hangs is asked until it answers: later it may send no event, and so no headers, for hours.
        """
        headers = awaited(call.headers())
        try:
            while not (await asyncio.wait((headers,), timeout=SILENT_S))[0]:
                if await self._answers():
                    break
        finally:
            headers.cancel()
        await asyncio.sleep(SETTLE_S)
        if not call.done():
            self._mark_open()

    async def _answers(self) -> bool:
        try:
            await self._options.channel.call(OPERATIONS["Version"], b"", ANSWER_S)
        except grpc.aio.AioRpcError:
            return False
        return True

    def _mark_open(self) -> None:
        if self.connection.opened(time.monotonic()):
            self._again.clear()
            self._options.on_change(self.connection, "")

    async def _unsupported(self) -> float:
        """Wait until the next attempt is due, or the connection ends: the next one may be to a runtime with events."""
        self.connection.unsupported(time.monotonic())
        self._options.on_change(self.connection, NO_EVENTS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROBE_UNSUPPORTED_S):
                await self._options.channel.disconnected()
                return self._broken(DISCONNECTED)
        return 0.0

    def _broken(self, reason: str) -> float:
        delay = self.connection.failed(time.monotonic())
        self._options.on_change(self.connection, reason)
        return delay

    async def _pause(self, delay: float) -> None:
        """Wait for the delay, or until the runtime answers again."""
        await asyncio.sleep(min(delay, EARLY_S))
        await wait_set(self._again, delay - EARLY_S)
        self._again.clear()
