"""When the event stream counts as open: on a runtime in Go, which sends no headers before its first event."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from actors.cri import event_stream
from actors.cri.event_stream import (
    DISCONNECTED,
    ENDED,
    ENDED_AT_ONCE,
    NO_EVENTS,
    EventConnection,
    EventStream,
    EventStreamOptions,
    Phase,
)
from actors.cri.operations import Operation
from actors.cri.runtime_client import RuntimeChannel
from tests.support.waiting import until_true


def rpc_error(code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "told so")


class Stream:
    """A call whose headers never come, and that returns nothing until a test puts a message."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.over = False

    async def headers(self) -> None:
        await asyncio.Event().wait()

    async def read(self) -> Any:
        found = await self.messages.get()
        if isinstance(found, BaseException):
            raise found
        self.over = found is None
        return found

    def done(self) -> bool:
        return self.over

    def cancel(self) -> None:
        self.over = True
        self.messages.put_nowait(rpc_error(grpc.StatusCode.CANCELLED))


class Channel(RuntimeChannel):
    """A runtime that takes every call, and answers Version only when `answers`."""

    def __init__(self) -> None:
        super().__init__("unix:///nowhere")
        self.answers = False
        self.asked = 0
        self.streams: list[Stream] = []
        self.gone = asyncio.Event()

    async def call(self, operation: Operation, request: bytes, timeout: float) -> bytes:
        self.asked += 1
        if not self.answers:
            raise rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED)
        return b""

    async def disconnected(self) -> None:
        await self.gone.wait()

    async def events(self) -> Any:
        self.streams.append(Stream())
        return self.streams[-1]


@asynccontextmanager
async def listening(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setattr(event_stream, "SILENT_S", 0.01)

    channel, reported = Channel(), list[tuple[Phase, str]]()

    def on_change(connection: EventConnection, reason: str) -> None:
        reported.append((connection.phase, reason))

    stream = EventStream(EventStreamOptions(channel, lambda message: None, on_change))
    running = asyncio.ensure_future(stream.run())
    async with asyncio.timeout(60):
        yield stream, channel, reported
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_stream_runtime_hung_streams_once_it_answers(monkeypatch: Any) -> None:
    """It may be idle for hours: no event comes to tell that the stream is open."""

    async with listening(monkeypatch) as (_, channel, reported):
        await until_true(lambda: channel.asked >= 3)
        assert reported == []
        channel.answers = True
        await until_true(lambda: reported)
        assert reported == [(Phase.STREAMING, "")]
        assert len(channel.streams) == 1


async def test_stream_ended_before_open_tells_remedy(monkeypatch: Any) -> None:
    async with listening(monkeypatch) as (_, channel, reported):
        await until_true(lambda: channel.streams)
        channel.streams[0].messages.put_nowait(None)
        await until_true(lambda: reported)
        assert reported[0] == (Phase.BROKEN, ENDED_AT_ONCE)
        channel.answers = True
        await until_true(lambda: reported[-1][0] is Phase.STREAMING)
        channel.streams[-1].messages.put_nowait(None)
        await until_true(lambda: reported[-1][0] is Phase.BROKEN)
        assert reported[-1] == (Phase.BROKEN, ENDED)


async def test_stream_unsupported_is_never_streaming_and_asked_again_by_a_new_connection(monkeypatch: Any) -> None:
    async with listening(monkeypatch) as (_, channel, reported):
        await until_true(lambda: channel.streams)
        channel.streams[0].messages.put_nowait(rpc_error(grpc.StatusCode.UNIMPLEMENTED))
        await until_true(lambda: reported)
        assert reported == [(Phase.UNSUPPORTED, NO_EVENTS)]
        channel.gone.set()
        await until_true(lambda: len(channel.streams) == 2)
        assert reported[-1] == (Phase.BROKEN, DISCONNECTED)


async def test_stream_unsupported_is_asked_again_on_the_same_connection(monkeypatch: Any) -> None:
    monkeypatch.setattr(event_stream, "PROBE_UNSUPPORTED_S", 0.05)
    async with listening(monkeypatch) as (_, channel, reported):
        await until_true(lambda: channel.streams)
        channel.streams[0].messages.put_nowait(rpc_error(grpc.StatusCode.UNIMPLEMENTED))
        await until_true(lambda: len(channel.streams) == 2)
        channel.streams[1].messages.put_nowait(rpc_error(grpc.StatusCode.UNIMPLEMENTED))
        await until_true(lambda: len(channel.streams) == 3)
        assert set(reported) == {(Phase.UNSUPPORTED, NO_EVENTS)}


async def test_stream_cut_tells_reason_and_another_is_opened(monkeypatch: Any) -> None:
    async with listening(monkeypatch) as (stream, channel, reported):
        channel.answers = True
        await until_true(lambda: reported)
        stream.cut("silent")
        await until_true(lambda: reported[-1] == (Phase.BROKEN, "silent"))
        await until_true(lambda: len(channel.streams) == 2)
