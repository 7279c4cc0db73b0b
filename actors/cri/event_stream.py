"""Keep GetContainerEvents open: state of the stream, backoff, and reading its messages.

connecting --headers or message--> streaming --error, EOF--> broken --delay--> connecting
connecting --UNIMPLEMENTED--> unsupported --10 min, or another runtime--> connecting
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import grpc.aio

from actors.cri.operations import OPERATIONS
from actors.cri.runtime_client import RuntimeChannel
from protocols.http2.calls import ServerStream

SETTLED_S = 30.0
"""A stream that was up this long clears the count of failures; a shorter one does not, so that a runtime which
accepts and breaks at once cannot cause a loop without delay."""

FALLEN_BACK = 5
"""Consecutive failures from which status and metrics say that events are given up for now (retries go on)."""


def retry_delay(failures: int) -> float:
    """Seconds to wait after the n-th consecutive failure: 0, 1, 2, 4, 8, 16, 32, 64, then 60 each time."""
    if failures <= 1:
        return 0.0
    if failures <= 8:
        return float(2 ** (failures - 2))
    return 60.0


PROBE_UNSUPPORTED_S = 600.0
"""How often a runtime without events is asked again."""


class Phase(Enum):
    CONNECTING = "connecting"
    STREAMING = "streaming"
    BROKEN = "broken"
    UNSUPPORTED = "unsupported"


@dataclass
class Connection:
    """All times are monotonic seconds given by the caller."""

    phase: Phase = Phase.CONNECTING
    failures: int = 0
    streaming_since: float = 0.0
    retry_at: float = 0.0

    def opened(self, now: float) -> bool:
        """Headers or a first message arrived; True when that was news."""
        if self.phase is Phase.STREAMING:
            return False
        self.phase = Phase.STREAMING
        self.streaming_since = now
        return True

    def failed(self, now: float) -> float:
        """The stream ended or could not be opened; returns seconds until the next attempt."""
        if self.phase is Phase.STREAMING and now - self.streaming_since >= SETTLED_S:
            self.failures = 0
        self.failures += 1
        self.phase = Phase.BROKEN
        return self._wait(now, retry_delay(self.failures))

    def unsupported(self, now: float) -> float:
        """The runtime has no event stream; returns seconds until it is asked again."""
        self.phase = Phase.UNSUPPORTED
        return self._wait(now, PROBE_UNSUPPORTED_S)

    def connecting(self) -> None:
        if self.phase is not Phase.UNSUPPORTED:
            self.phase = Phase.CONNECTING

    def _wait(self, now: float, delay: float) -> float:
        self.retry_at = now + delay
        return delay


EARLY_S = 0.25
"""An early attempt (the runtime answers again) comes no sooner than this after a failure."""
SILENT_S = 2.0
"""A server that sends no headers before its first event (grpc-go) is believed to stream after this long, when it
answers another call meanwhile: had it no event stream, it would have said so."""
ANSWER_S = 5.0
ENDED = "the runtime ended the event stream"
ENDED_AT_ONCE = f"{ENDED} at once: it may have events turned off (CRI-O: enable_pod_events = true)"


@dataclass(frozen=True)
class EventStreamOptions:
    channel: RuntimeChannel
    """Of the events alone: it is renewed at every attempt."""
    on_message: Callable[[bytes], None]
    on_change: Callable[[Connection, str], None]
    """Called with the state and, when it is not well, the reason."""


class EventStream:
    def __init__(self, options: EventStreamOptions) -> None:
        self._options = options
        self.connection = Connection()
        self._again = asyncio.Event()
        self._call: ServerStream | None = None
        self._cut = ""

    def try_again(self) -> None:
        """Something changed (the runtime answers again, or is another): do not wait for the table's delay."""
        self._again.set()

    def cut(self, reason: str) -> None:
        """End the stream from this side: it counts as a failure."""
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
            heard = await self._read()
            return self._broken(self._cut or (ENDED if heard else ENDED_AT_ONCE))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                delay = self.connection.unsupported(time.monotonic())
                self._options.on_change(self.connection, "the runtime has no event stream")
                return delay
            return self._broken(self._cut or f"{error.code().name}: {error.details()}")

    async def _read(self) -> bool:
        """Until the stream ends; whether it was open before."""
        call = self._call = await self._options.channel.events()
        opening = asyncio.ensure_future(self._opened(call))
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
        """Headers open the stream, but those of an immediate error do not.

        A runtime that hangs is asked until it answers: it may send no event, and so no header, for hours after.
        """
        while not call.done:
            try:
                async with asyncio.timeout(SILENT_S):
                    await call.begun.wait()
            except TimeoutError:
                if not await self._answers():
                    continue
            await asyncio.sleep(0)
            if not call.done:
                self._mark_open()
            return

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

    def _broken(self, reason: str) -> float:
        delay = self.connection.failed(time.monotonic())
        self._options.on_change(self.connection, reason)
        return delay

    async def _pause(self, delay: float) -> None:
        """Wait as the table says, or less: until the runtime is known to answer again."""
        await asyncio.sleep(min(delay, EARLY_S))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, delay - EARLY_S)):
                await self._again.wait()
        self._again.clear()
