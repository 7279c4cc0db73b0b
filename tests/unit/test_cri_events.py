"""When the event stream counts as open: on a runtime in Go, which sends no headers before its first event."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.cri import event_stream
from actors.cri.event_stream import ENDED, ENDED_AT_ONCE, Connection, EventStream, EventStreamOptions, Phase
from actors.cri.grpc_calls import rpc_error
from actors.cri.http2_client import RuntimeChannel
from actors.cri.operations import Operation
from tests.support.runtime import until


class Stream:
    """A call that returns nothing until a test puts a message."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.done = False

    async def read(self) -> bytes | None:
        found = await self.messages.get()
        self.done = found is None
        return found

    def cancel(self) -> None:
        self.done = True
        self.messages.put_nowait(None)


class Channel(RuntimeChannel):
    """A runtime that takes every call, and answers Version only when `answers`."""

    def __init__(self) -> None:
        super().__init__("unix:///nowhere")
        self.answers = False
        self.asked = 0
        self.streams: list[Stream] = []

    async def call(self, operation: Operation, request: bytes, timeout: float) -> bytes:
        self.asked += 1
        if not self.answers:
            raise rpc_error("DEADLINE_EXCEEDED", "Deadline Exceeded")
        return b""

    async def events(self) -> Any:
        self.streams.append(Stream())
        return self.streams[-1]


@asynccontextmanager
async def listening(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setattr(event_stream, "SILENT_S", 0.01)

    channel, reported = Channel(), list[tuple[Phase, str]]()

    def on_change(connection: Connection, reason: str) -> None:
        reported.append((connection.phase, reason))

    stream = EventStream(EventStreamOptions(channel, lambda message: None, on_change))
    running = asyncio.ensure_future(stream.run())
    async with asyncio.timeout(60):
        yield channel, reported
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_stream_runtime_hung_streams_once_it_answers(monkeypatch: Any) -> None:
    """It may be idle for hours: no event comes to tell that the stream is open."""

    async with listening(monkeypatch) as (channel, reported):
        await until(lambda: channel.asked >= 3)
        assert reported == []
        channel.answers = True
        await until(lambda: reported)
        assert reported == [(Phase.STREAMING, "")]
        assert len(channel.streams) == 1


async def test_stream_ended_before_open_tells_remedy(monkeypatch: Any) -> None:
    async with listening(monkeypatch) as (channel, reported):
        await until(lambda: channel.streams)
        channel.streams[0].messages.put_nowait(None)
        await until(lambda: reported)
        assert reported[0] == (Phase.BROKEN, ENDED_AT_ONCE)
        channel.answers = True
        await until(lambda: reported[-1][0] is Phase.STREAMING)
        channel.streams[-1].messages.put_nowait(None)
        await until(lambda: reported[-1][0] is Phase.BROKEN)
        assert reported[-1] == (Phase.BROKEN, ENDED)


async def test_stream_unsupported_is_never_streaming(monkeypatch: Any) -> None:
    async with listening(monkeypatch) as (channel, reported):
        await until(lambda: channel.streams)

        async def refused() -> bytes | None:
            raise rpc_error("UNIMPLEMENTED", "no such method")

        monkeypatch.setattr(Stream, "read", lambda self: refused())
        channel.streams[0].messages.put_nowait(b"one")
        await until(lambda: reported and reported[-1][0] is Phase.UNSUPPORTED)
