"""Descriptors that connections never take, and unauthenticated connections that make room."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from protocols.serving import connection, listener
from protocols.serving.connection import BoundedServer, mark_authenticated
from protocols.serving.listener import Listener, ListenerOptions
from protocols.serving.unauthenticated import UnauthenticatedConnections, UnauthenticatedLimits
from protocols.streams.accepting import accept_forward, forward_protocol
from tests.support.waiting import until_async

GET = b"GET / HTTP/1.1\r\nHost: x\r\n%s\r\n"
OK = b"HTTP/1.1 200 OK"
PROOF = b"Authorization: me\r\n"
Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def hello(request: web.BaseRequest) -> web.Response:
    if "Authorization" in request.headers:
        mark_authenticated(request)
    return web.Response(body=b"hello")


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Served:
    def __init__(self, listening: Listener, unauthenticated: UnauthenticatedConnections[listener.Slot]) -> None:
        self.listening, self.unauthenticated = listening, unauthenticated
        self.monkey = pytest.MonkeyPatch()
        self._peers: list[Peer] = []

    async def connect(self) -> Peer:
        self._peers.append(await asyncio.open_connection("127.0.0.1", self.listening.port))
        return self._peers[-1]

    async def unauthenticated_count(self, count: int) -> None:
        await until_async("connections", lambda: len(self.unauthenticated), every=0.001, good=lambda n: n >= count)

    def close(self) -> None:
        self.monkey.undo()
        for _, writer in self._peers:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def served(limits: UnauthenticatedLimits, handler: Handler = hello) -> AsyncIterator[Served]:
    server = BoundedServer(handler, authenticated_timeout=75.0, handler_cancellation=True, access_log=None)
    runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    unauthenticated: UnauthenticatedConnections[listener.Slot] = UnauthenticatedConnections(limits)
    listening = Listener(ListenerOptions("127.0.0.1", 0, None, server), unauthenticated)
    listening.start()
    made = Served(listening, unauthenticated)
    async with asyncio.timeout(60):
        try:
            yield made
        finally:
            made.close()
            listening.close()
            await runner.cleanup()


async def asked(peer: Peer, headers: bytes = PROOF) -> bytes:
    """The first line of the answer."""
    reader, writer = peer
    writer.write(GET % headers)
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(head.partition(b"Content-Length: ")[2].partition(b"\r")[0]))
    return head.partition(b"\r\n")[0]


async def test_listener_out_of_descriptors_says_so_and_serves_who_is_in() -> None:
    async with served(UnauthenticatedLimits()) as made:
        first = await made.connect()
        assert await asked(first) == OK
        made.listening._most = 0
        made.monkey.setattr(listener, "REFUSING", 1_000_000)
        assert await asked(peer := await made.connect()) == b"HTTP/1.1 503 Service Unavailable"
        assert await peer[0].read() == b""
        assert await asked(first) == OK
        made.listening._most = 1_000_000
        assert await asked(await made.connect()) == OK


async def test_listener_out_of_its_reserve_drops_connections() -> None:
    async with served(UnauthenticatedLimits()) as made:
        made.listening._most = -listener.REFUSING
        reader, _ = await made.connect()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""


async def test_listener_out_of_descriptors_evicts_an_unauthenticated_connection_first() -> None:
    async with served(UnauthenticatedLimits()) as made:
        silent = await made.connect()
        await made.unauthenticated_count(1)
        made.listening._most = 0
        made.monkey.setattr(listener, "REFUSING", 1_000_000)
        assert await asked(await made.connect()) == OK
        assert (await silent[0].readline()).startswith(b"HTTP/1.1 429 ")


async def test_listener_with_too_many_unauthenticated_evicts_old_ones_only() -> None:
    async with served(UnauthenticatedLimits(per_address=2)) as made:
        silent = [await made.connect() for _ in range(2)]
        await made.unauthenticated_count(2)
        late = await made.connect()
        answer = asyncio.create_task(asked(late))
        await asyncio.sleep(3 * listener.PAUSE_S)
        assert not answer.done()
        assert made.listening.evicted == 0
        made.monkey.setattr(listener, "YOUNG_S", 0.0)
        assert await answer == OK
        assert made.listening.evicted == 1
        assert (await silent[0][0].readline()).startswith(b"HTTP/1.1 429 ")


async def test_authenticated_connection_frees_its_slot() -> None:
    async with served(UnauthenticatedLimits()) as made:
        peer = await made.connect()
        assert await asked(peer, b"") == OK
        assert len(made.unauthenticated) == 1
        assert await asked(peer) == OK
        assert len(made.unauthenticated) == 0


async def rest(peer: Peer) -> bytes:
    """What comes until the connection is closed or broken off."""
    with contextlib.suppress(ConnectionResetError):
        return await peer[0].read()
    return b""


async def test_request_with_too_large_headers_is_refused_and_not_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    handled: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        handled.append(request.path)
        return web.Response()

    monkeypatch.setattr(f"{__name__}.hello", handler)
    async with served(UnauthenticatedLimits()) as place:
        peer = await place.connect()
        wide = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 4096) for number in range(17))
        peer[1].write(GET % wide)
        assert (await rest(peer)).startswith(b"HTTP/1.1 431 ")
    assert handled == []


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost", GET % b""], ids=["silent", "half", "after a request"])
async def test_unauthenticated_connection_ends_after_its_time(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "UNAUTHENTICATED_S", 1.5)
    async with served(UnauthenticatedLimits()) as place:
        peer, known = await place.connect(), await place.connect()
        assert (await asked(known)).startswith(OK)
        peer[1].write(sent)
        assert (await rest(peer)).startswith(OK) == (sent == GET % b"")
        assert (await asked(known)).startswith(OK), "an authenticated one has more time"


async def test_unauthenticated_connection_may_wait_longer_for_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        await asyncio.sleep(0.6)
        return web.Response()

    monkeypatch.setattr(f"{__name__}.hello", handler)
    monkeypatch.setattr(connection, "UNAUTHENTICATED_S", 0.3)
    async with served(UnauthenticatedLimits()) as place:
        assert (await asked(await place.connect(), b"")).startswith(OK)


PIECE = b"x" * 50_000
KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
STREAMS = {
    "log": b"",
    "spdy": b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n",
    "websocket": b"Connection: Upgrade\r\nUpgrade: websocket\r\n%b" % KEY
    + b"Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n",
}
"""Headers of requests for streams."""


class Flood:
    """A stream whose output never ends."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        mark_authenticated(request)
        try:
            if "Upgrade" in request.headers:
                await self._forward(request)
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(PIECE)
        finally:
            self.ended.set()

    async def _forward(self, request: web.BaseRequest) -> None:
        socket = (await accept_forward(request, forward_protocol(request), ())).socket
        while socket is not None:
            await socket.send_bytes(PIECE)


@pytest.mark.parametrize("stream", STREAMS)
async def test_stream_of_a_client_that_reads_nothing_ends(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unread log or command held its seat, its memory and its sockets for as long as the client liked."""
    monkeypatch.setattr(connection, "UNREAD_S", 1.0)
    monkeypatch.setattr(connection, "UNREAD_CHECK_S", 0.1)
    flood = Flood()
    async with served(UnauthenticatedLimits(), flood.serve) as made:
        (await made.connect())[1].write(GET % STREAMS[stream])
        await flood.ended.wait()


async def test_stream_of_a_client_that_reads_slowly_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this client the transport's buffer hardly ever changes: what it reads comes from the kernel."""
    monkeypatch.setattr(connection, "UNREAD_S", 1.5)
    monkeypatch.setattr(connection, "UNREAD_CHECK_S", 0.05)
    flood = Flood()
    async with served(UnauthenticatedLimits(), flood.serve) as made:
        reader, writer = await made.connect()
        writer.write(GET % STREAMS["log"])
        for _ in range(40):
            await reader.readexactly(len(PIECE))
            await asyncio.sleep(0.1)
        assert not flood.ended.is_set()


async def test_checks_of_unread_connections_end_with_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "UNREAD_CHECK_S", 0.01)
    server = BoundedServer(hello, authenticated_timeout=75.0)
    made = server()
    await asyncio.sleep(0.05)
    assert server._checks is None, "a connection that was never made"
    del made


async def test_connections_beside_many_handshakes_are_accepted_a_few_at_a_time() -> None:
    async with served(UnauthenticatedLimits()) as one:
        one.monkey.setattr(listener, "HANDSHAKES", -1)
        peers = [await one.connect() for _ in range(3 * listener.TOGETHER)]
        assert [(await asked(peer)).startswith(OK) for peer in peers] == [True] * len(peers)


async def test_further_connections_wait_while_too_many_handshakes_are_under_way() -> None:
    async with served(UnauthenticatedLimits()) as one:
        one.monkey.setattr(listener, "HANDSHAKES", -1)
        one.monkey.setattr(listener, "BUSY_PAUSE_S", 3600.0)
        for _ in range(3 * listener.TOGETHER):
            await one.connect()
        assert len(one.unauthenticated) <= listener.TOGETHER
