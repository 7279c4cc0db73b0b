"""Keeps GetContainerEvents open and hands every message on; tells how the stream fares."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import grpc.aio

from actors.cri.channel import RuntimeChannel
from actors.cri.connection import Connection, Phase
from actors.cri.operations import OPERATIONS
from protocols.http2.calls import ServerStream

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
