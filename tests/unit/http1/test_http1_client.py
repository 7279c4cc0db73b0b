"""The client of HTTP/1.1 against servers that are scripted byte by byte, on both event loops."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from protocols.http1 import client as client_module
from protocols.http1 import connection as connection_module
from protocols.http1.client import STREAM_DIALS, HttpClient
from protocols.http1.connection import Address, ConnectionBroken, Http1Connection, NotSent
from protocols.http1.response import HttpFailed, ResponseInvalid
from tests.support.waiting import until_true

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LIMIT, PATIENCE_S = 1 << 20, 60.0
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Runs a script for each connection."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.writers: list[asyncio.StreamWriter] = []
        self.left = 0
        """Connections that have ended."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            with contextlib.suppress(ConnectionError):
                await self._script(reader, writer)
        finally:
            self.left += 1
            writer.close()


@asynccontextmanager
async def world(script: Script, connections: int = 2) -> AsyncIterator[tuple[Server, HttpClient]]:
    server = Server(script)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    client = HttpClient(Address("127.0.0.1", listening.sockets[0].getsockname()[1]), connections)
    try:
        yield server, client
    finally:
        client.close()
        await until_true(lambda: server.left == len(server.writers))
        listening.close()
        await listening.wait_closed()


def answering(*answers: bytes) -> Script:
    """Answer each request of a connection, the last answer again and again; an empty one ends it."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = list(answers)
        while await request_of(reader):
            answer = left.pop(0) if len(left) > 1 else left[0]
            if not answer:
                return
            writer.write(answer)

    return script


async def request_of(reader: asyncio.StreamReader) -> bool:
    try:
        await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return False
    return True


async def get(client: HttpClient, seconds: float = PATIENCE_S) -> bytes:
    return (await client.request(REQUEST, LIMIT, seconds)).body


async def read_into(got: bytearray, answer: Http1Connection, silence: float) -> None:
    async for chunk in answer.chunks(silence):
        got += chunk


async def test_requests_in_turn_share_a_connection() -> None:
    async with world(answering(WHOLE)) as (server, client):
        assert [await get(client) for _ in range(3)] == [b"hello"] * 3
        assert len(server.writers) == 1


async def test_requests_at_once_are_bounded_by_the_pool() -> None:
    async with world(answering(WHOLE)) as (server, client):
        assert await asyncio.gather(*(get(client) for _ in range(50))) == [b"hello"] * 50
        assert len(server.writers) == 2


@pytest.mark.parametrize("answer", [b"", WHOLE[:-1], STREAM + b"5\r\nhel", b"HTTP/1.1 200"])
async def test_connection_that_ends_before_the_response_is_broken(answer: bytes) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(answer)

    async with world(script) as (server, client):
        with pytest.raises(ConnectionBroken):
            await get(client)
        assert len(server.writers) == 1


@pytest.mark.parametrize("answer", [b"garbage\r\n\r\n", b"\0" * 100, b"HTTP/9.1 abc\r\n\r\n", WHOLE * 2])
async def test_nonsense_is_invalid_and_ends_the_connection(answer: bytes) -> None:
    async with world(answering(answer)) as (server, client):
        with pytest.raises(ResponseInvalid):
            await get(client)
        await until_true(lambda: server.left == 1)


async def test_response_larger_than_its_limit_is_invalid() -> None:
    async with world(answering(WHOLE)) as (_, client):
        with pytest.raises(ResponseInvalid, match="more than 4 bytes"):
            await client.request(REQUEST, 4, PATIENCE_S)


async def test_bytes_that_nobody_asked_for_end_an_idle_connection() -> None:
    async with world(answering(WHOLE)) as (server, client):
        await get(client)
        server.writers[0].write(WHOLE)
        await until_true(lambda: server.left == 1)
        assert await get(client) == b"hello"
        assert len(server.writers) == 2


async def test_idle_connection_that_the_server_closed_is_not_used_again() -> None:
    async with world(answering(WHOLE)) as (server, client):
        await get(client)
        server.writers[0].close()
        await until_true(lambda: not client._idle[0].reusable)
        assert await get(client) == b"hello"
        assert len(server.writers) == 2


async def test_server_that_ends_each_connection_is_dialed_anew() -> None:
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
    async with world(answering(closing)) as (server, client):
        assert [await get(client), await get(client)] == [b"hello"] * 2
        assert len(server.writers) == 2


async def test_body_until_the_end_of_the_connection_is_whole() -> None:
    async with world(answering(b"HTTP/1.1 200 OK\r\n\r\nhel", b"")) as (server, client):
        asked = asyncio.create_task(get(client))
        await until_true(lambda: bool(server.writers))
        await asyncio.sleep(0.01)
        server.writers[0].write(b"lo")
        server.writers[0].write_eof()
        assert await asked == b"hello"


async def test_server_that_is_silent_costs_the_deadline_and_the_connection() -> None:
    async with world(answering(b"HTTP/1.1 100 Continue\r\n\r\n")) as (server, client):
        with pytest.raises(TimeoutError):
            await get(client, 0.05)
        await until_true(lambda: server.left == 1)


async def test_deadline_holds_while_all_connections_are_in_use() -> None:
    async with world(answering(b"HTTP/1.1 100 Continue\r\n\r\n"), connections=1) as (_, client):
        first = asyncio.create_task(get(client))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await get(client, 0.05)
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first


async def test_request_that_is_cancelled_frees_its_place() -> None:
    async with world(answering(b"HTTP/1.1 100 Continue\r\n\r\n", WHOLE), connections=1) as (server, client):
        for number in range(3):
            asked = asyncio.create_task(get(client))
            await until_true(lambda number=number: len(server.writers) == number + 1)  # type: ignore[misc]
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        await until_true(lambda: server.left == 3)


async def test_server_that_is_away_was_sent_nothing() -> None:
    async with world(answering(WHOLE)) as (_, client):
        pass
    away = HttpClient(client._address, 1)
    with pytest.raises(NotSent, match=r"\S"):
        await get(away)
    away.close()


async def test_handshake_without_an_answer_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "CONNECT_S", 0.05)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with world(script) as (_, plain):
        address = Address("127.0.0.1", plain._address.port, ssl.create_default_context)
        client = HttpClient(address, 1)
        with pytest.raises(NotSent, match="accepts no connection"):
            await get(client)
        client.close()


async def test_unused_connections_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "KEEP_S", 0.02)
    async with world(answering(WHOLE)) as (server, client):
        await asyncio.gather(get(client), get(client))
        await until_true(lambda: server.left == 2)
        assert client._idle == []


async def test_connections_of_an_older_context_are_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "CHECK_S", 0.0)
    async with world(answering(WHOLE)) as (server, client):
        await get(client)
        client._idle[0].context = ssl.create_default_context()
        await get(client)
        assert len(server.writers) == 2


async def test_client_that_is_closed_ends_its_requests() -> None:
    async with world(answering(b"HTTP/1.1 100 Continue\r\n\r\n")) as (server, client):
        asked = asyncio.create_task(get(client))
        await until_true(lambda: bool(client._used))
        client.close()
        with pytest.raises(HttpFailed):
            await asked
        with pytest.raises(NotSent):
            await get(client)
        await until_true(lambda: server.left == len(server.writers))


async def test_stream_yields_what_arrives_until_its_end() -> None:
    async with world(answering(STREAM, b"")) as (server, client), client.stream(REQUEST, PATIENCE_S) as answer:
        assert answer.status == 200
        got: list[bytes] = []
        for piece in (b"5\r\nhello\r\n", b"1\r\n,\r\n0\r\n\r\n"):
            server.writers[0].write(piece)
            got.append(await anext(answer.chunks(PATIENCE_S)))
        assert got == [b"hello", b","]
        assert [chunk async for chunk in answer.chunks(PATIENCE_S)] == []


async def test_streams_open_a_few_connections_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opening, most, dial = 0, 0, connection_module.dial

    async def counted(*arguments: Any) -> Http1Connection:
        nonlocal opening, most
        opening += 1
        most = max(most, opening)
        try:
            return await dial(*arguments)
        finally:
            opening -= 1

    async def stream(client: HttpClient) -> int:
        async with client.stream(REQUEST, PATIENCE_S) as answer:
            return answer.status

    monkeypatch.setattr(client_module, "dial", counted)
    async with world(answering(STREAM)) as (_, client):
        assert await asyncio.gather(*(stream(client) for _ in range(3 * STREAM_DIALS))) == [200] * 3 * STREAM_DIALS
    assert most == STREAM_DIALS


async def test_stream_that_breaks_yields_what_came_before() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(STREAM + b"5\r\nhello\r\n")

    async with world(script) as (_, client), client.stream(REQUEST, PATIENCE_S) as answer:
        got = bytearray()
        with pytest.raises(ConnectionBroken):
            await read_into(got, answer, PATIENCE_S)
        assert got == b"hello"


async def test_silent_stream_ends_with_its_deadline() -> None:
    async with world(answering(STREAM)) as (server, client):
        async with client.stream(REQUEST, PATIENCE_S) as answer:
            with pytest.raises(TimeoutError):
                await read_into(bytearray(), answer, 0.05)
        await until_true(lambda: server.left == 1)


async def test_stream_that_nobody_reads_holds_the_server_back() -> None:
    piece, sent = b"10000\r\n" + bytes(65536) + b"\r\n", 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await request_of(reader)
        writer.write(STREAM)
        while True:
            writer.write(piece)
            await writer.drain()
            sent += 65536

    async with world(script) as (_, client), client.stream(REQUEST, PATIENCE_S) as answer:
        await until_true(lambda: answer._reader.size > connection_module.AHEAD)
        before = -1
        while before != sent:  # until the kernel's buffers are full as well
            before = sent
            await asyncio.sleep(0.05)
        assert answer._reader.size <= 2 * connection_module.AHEAD
        got = 0
        async for chunk in answer.chunks(PATIENCE_S):
            got += len(chunk)
            if got > before + (4 << 20):
                break
