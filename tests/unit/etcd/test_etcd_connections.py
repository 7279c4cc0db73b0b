"""A connection whose end was read takes no new call, though nobody has been told yet."""

import asyncio
from collections.abc import Callable
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from protocols.etcd.transport.connection_channel import (
    AHEAD_BYTES,
    CallConnection,
    ConnectionChannel,
    ConnectionStream,
    OnMessage,
)
from protocols.etcd.transport.frames import GREETING, OK, Splitter, pack
from protocols.etcd.transport.private_connection import PrivateConnection
from protocols.http2.connection import Address, Http2Connection
from protocols.wire import etcd_pb2 as pb


class Transport(asyncio.Transport):
    closing = False

    def write(self, data: Any) -> None: ...

    def is_closing(self) -> bool:
        return self.closing


class Nobody:
    def __getattr__(self, name: str) -> Any:
        return lambda *told: None


def door() -> asyncio.Protocol:
    return PrivateConnection(lambda number, kind, body: None, lambda: None)


def http2() -> asyncio.Protocol:
    return Http2Connection(Address(), Nobody())


@pytest.mark.parametrize("make", [door, http2])
async def test_no_call_begins_on_a_connection_that_ends(make: Any) -> None:
    line, transport = make(), Transport()
    line.connection_made(transport)
    assert not line.draining
    transport.closing = True
    assert line.draining
    transport.closing = False  # as a transport that was lost by itself says
    line.connection_lost(None)
    assert line.draining


class Answering(Transport):
    """Says yes to each call, by hand."""

    def __init__(self, line: PrivateConnection) -> None:
        super().__init__()
        self._line, self._splitter = line, Splitter(1024, GREETING)

    def write(self, data: Any) -> None:
        for number, *_ in self._splitter.feed(data):
            asyncio.get_running_loop().call_soon(self._line.data_received, pack(number, OK, b""))


async def test_a_connection_that_broke_before_it_was_handed_over_is_not_kept() -> None:
    """The store was killed in between: its end came when the channel did not hold the connection yet."""
    dialled: list[PrivateConnection] = []

    async def dial(heard: OnMessage, lost: Callable[[], None]) -> CallConnection:
        line = PrivateConnection(heard, lost)
        dialled.append(line)
        line.connection_made(Answering(line))
        if len(dialled) == 1:
            line.connection_lost(None)
        return line

    channel = ConnectionChannel("h", dial)
    put = channel.unary_unary("/etcdserverpb.KV/Put", pb.PutRequest.SerializeToString, pb.PutResponse.FromString)
    assert await put(pb.PutRequest(), timeout=15.0) == pb.PutResponse()
    assert len(dialled) == 2


async def test_few_large_messages_of_a_stream_wait_in_the_kernel() -> None:
    dial, body = AsyncMock(return_value=Mock()), bytes(AHEAD_BYTES // 2)
    stream = ConnectionStream(dial, "Watch/Watch", (bytes, bytes), lambda stream: None, patient=True)  # type: ignore[arg-type]
    await stream.write(b"")  # type: ignore[arg-type]
    pause = dial.return_value.pause
    for _ in range(3):
        pause.assert_not_called()
        stream._take(1, OK, body)
    pause.assert_called_once_with(True)
    assert [await stream.read() for _ in range(3)] == [body] * 3
    stream._take(1, OK, body)
    pause.assert_called_with(False)
