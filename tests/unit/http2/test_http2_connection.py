"""Calls over sockets to servers that hang, close and come back: each ends with a fault of gRPC, none hangs."""

import asyncio
import contextlib
import functools
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

import grpc
import pytest

from protocols.etcd.transport.connection_channel import ConnectionChannel
from protocols.etcd.transport.http2_connection import http2_channel
from protocols.http2 import connection as line_module
from protocols.http2 import frames as h2
from protocols.http2.frames import PREFACE, Splitter, pack


class Member:
    """Answers settings with settings, and calls with `answers`, else with silence."""

    def __init__(self) -> None:
        self.answers = True
        self.connections = 0
        self.pings = self.pongs = 0
        self.greets = True
        self.measures = False
        """Sends a ping with each answer, as servers of Go do."""
        self.heard = asyncio.Condition()
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        splitter = Splitter()
        if self.greets:
            writer.write(pack(h2.SETTINGS, 0, 0))
        data = (await reader.readexactly(len(PREFACE)))[len(PREFACE) :]
        while data or not reader.at_eof():
            for kind, flags, stream, _ in splitter.feed(data):
                self.pings += kind == h2.PING and not flags & h2.ACK
                self.pongs += kind == h2.PING and flags & h2.ACK
                if self.answers and flags & h2.END_STREAM and kind == h2.DATA:
                    writer.write(answer(stream) + pack(h2.PING, 0, 0, bytes(8)) * self.measures)
            async with self.heard:
                self.heard.notify_all()
            data = await reader.read(65_536)

    async def reads(self, pongs: int) -> None:
        async with self.heard:
            await self.heard.wait_for(lambda: self.pongs >= pongs)

    def drop(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()


def answer(stream: int) -> bytes:
    """:status 200, the message `m`, grpc-status 0."""
    status = b"\0\x0bgrpc-status\x010"
    head = pack(h2.HEADERS, h2.END_HEADERS, stream, b"\x88")
    return head + pack(h2.DATA, 0, stream, b"\0\0\0\0\1m") + pack(h2.HEADERS, 5, stream, status)


@asynccontextmanager
async def running() -> AsyncIterator[tuple[ConnectionChannel, "Member"]]:
    member = Member()
    server = await asyncio.start_server(member.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    channel = http2_channel(f"127.0.0.1:{port}", None, 1 << 20)
    try:
        async with asyncio.timeout(60):
            yield channel, member
    finally:
        await channel.close()
        member.drop()
        server.close()
        await asyncio.sleep(0.01)


async def ask(channel: ConnectionChannel, timeout: float = 40.0, wait_for_ready: bool = True) -> Any:
    stub = channel.unary_unary("/etcdserverpb.KV/Range", lambda body: body, bytes)
    return await stub(b"q", timeout=timeout, wait_for_ready=wait_for_ready)


async def test_calls_share_a_connection_and_a_new_one_is_made_when_it_broke() -> None:
    async with running() as (channel, member):
        assert await asyncio.gather(*(ask(channel) for _ in range(5))) == [b"m"] * 5
        assert member.connections == 1
        wire = channel._connection.inner._transport.get_extra_info("socket")  # type: ignore[union-attr]  # it is open
        assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
        member.answers = False
        asking = asyncio.create_task(ask(channel))
        await asyncio.sleep(0.05)
        member.drop()
        with pytest.raises(grpc.aio.AioRpcError) as broken:
            await asking
        assert broken.value.code() is grpc.StatusCode.UNAVAILABLE
        member.answers = True
        assert await ask(channel) == b"m"
        assert member.connections == 2


async def test_a_member_that_hangs_is_asked_whether_it_lives_and_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "QUIET_S", 0.1)
    monkeypatch.setattr(line_module, "PATIENCE_S", 0.1)

    async with running() as (channel, member):
        member.answers = False
        with pytest.raises(grpc.aio.AioRpcError) as broken:
            await ask(channel)
        assert broken.value.code() is grpc.StatusCode.UNAVAILABLE
        assert member.pings == 1


async def test_a_call_ends_at_its_deadline_and_the_next_one_is_answered() -> None:
    async with running() as (channel, member):
        member.answers = False
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await ask(channel, timeout=0.5)
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        member.answers = True
        assert await ask(channel) == b"m"


async def test_connection_that_is_lost_before_anybody_holds_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call on it would have no end."""

    async def connect(factory: Any, *where: Any, **how: Any) -> tuple[None, asyncio.Protocol]:
        protocol = factory()
        protocol.connection_made(mock.Mock(is_closing=lambda: False))
        protocol.connection_lost(None)
        return None, protocol

    monkeypatch.setattr(asyncio.get_running_loop(), "create_unix_connection", connect)
    with pytest.raises(ConnectionResetError, match="the connection broke"):
        await line_module.dial(line_module.Address(path="/there"), mock.Mock())


async def test_an_absent_server_is_an_error_at_the_deadline() -> None:
    channel = http2_channel("127.0.0.1:1", None, 1 << 20)
    with pytest.raises(grpc.aio.AioRpcError, match=r"127\.0\.0\.1:1 does not let us connect: .Errno 111") as away:
        await ask(channel, timeout=1.0)
    assert away.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await channel.close()


async def test_answers_to_pings_wait_however_many_calls_go_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "PONG_S", 60.0)

    async with running() as (channel, member):
        member.measures = True
        for _ in range(3):
            assert await ask(channel) == b"m"
        assert member.pongs == 0


async def test_many_calls_at_once_are_all_answered() -> None:
    """They share a write."""

    async with running() as (channel, member):
        assert await ask(channel) == b"m"
        answers = await asyncio.gather(*(ask(channel) for _ in range(40)))
        assert answers == [b"m"] * 40
        assert member.connections == 1


async def test_soon_they_go_by_themselves() -> None:
    async with running() as (channel, member):
        member.measures = True
        for _ in range(3):
            assert await ask(channel) == b"m"
        await member.reads(pongs=3)


async def test_one_that_says_nothing_does_not_stand_until_it_does() -> None:
    """Its kernel lets us connect all the same."""

    async with running() as (channel, member):
        member.greets = False
        assert not await channel.stands(0.1)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ask(channel, wait_for_ready=False)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        member.drop()
        member.greets = True
        while not await channel.stands(10.0):
            assert member.connections < 3
        assert await ask(channel, wait_for_ready=False) == b"m"


async def test_who_asks_whether_it_stands_meanwhile_shares_the_try() -> None:
    async with running() as (channel, member):
        assert all(await asyncio.gather(*(channel.stands(10.0) for _ in range(5))))
        assert member.connections == 1


async def test_server_that_sends_and_does_not_read_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "UNREAD", 100_000)
    server, line = socket.socketpair(socket.AF_UNIX)
    server.settimeout(60)
    lost = asyncio.get_running_loop().create_future()
    listener = mock.Mock(on_lost=lost.set_result)
    made = functools.partial(line_module.Http2Connection, line_module.Address(), listener)
    _, connection = await asyncio.get_running_loop().create_unix_connection(made, sock=line)
    asks = pack(h2.SETTINGS, 0, 0) + pack(h2.PING, 0, 0, bytes(16_000)) * 10

    def send() -> None:
        with contextlib.suppress(OSError):
            while True:
                server.sendall(asks)

    async with asyncio.timeout(60):
        sending = asyncio.get_running_loop().run_in_executor(None, send)
        assert await lost is connection
        server.close()
        await sending
