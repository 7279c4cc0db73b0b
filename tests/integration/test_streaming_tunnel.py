"""Port-forward to a runtime that speaks SPDY on the bare connection: its upgrade, its bytes, its refusals."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from actors.podworker.endpoint.errors import RuntimeUnavailable
from actors.podworker.endpoint.streams import serve_forward
from protocols.streams.channels import TUNNEL

UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\n"
REFUSED = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


@asynccontextmanager
async def running_tunnel(answer: bytes) -> AsyncIterator[tuple[aiohttp.ClientSession, str, list[str]]]:
    """A runtime that gives `answer` and then repeats what it hears, behind a node that tunnels to it."""

    heard: list[str] = []

    async def runtime(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(answer)
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def node(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await serve_forward(request, f"http://127.0.0.1:{port}/portforward/token", bare_spdy=True)
        except RuntimeUnavailable as error:
            return web.Response(status=error.http, text=str(error))

    async with asyncio.timeout(60), await asyncio.start_server(runtime, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        runner = web.ServerRunner(web.Server(node, handler_cancellation=True))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with aiohttp.ClientSession() as session:
            yield session, f"http://127.0.0.1:{runner.addresses[0][1]}/", heard
        await runner.cleanup()


async def test_bytes_pass_both_ways_and_the_end_too() -> None:
    async with running_tunnel(UPGRADED) as (session, url, heard):
        async with session.ws_connect(url, protocols=(TUNNEL,)) as socket:
            assert socket.protocol == TUNNEL
            sent = [bytes([n]) * 30_000 for n in range(100)]
            sending = asyncio.create_task(_send_all(socket, sent))
            received = b""
            while len(received) < 3_000_000:
                received += await socket.receive_bytes()
            await sending
            assert received == b"".join(sent)
        assert heard[0].startswith("POST /portforward/token HTTP/1.1\r\n")
        assert "X-Stream-Protocol-Version: portforward.k8s.io\r\n" in heard[0]


async def test_a_runtimes_rejection_comes_before_the_handshake() -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "portforward.k8s.io"}
    async with running_tunnel(REFUSED) as (session, url, _heard), session.get(url, headers=upgrade) as answer:
        assert answer.status == 503
        assert "it answered 404" in await answer.text()


async def _send_all(socket: aiohttp.ClientWebSocketResponse, pieces: list[bytes]) -> None:
    for piece in pieces:
        await socket.send_bytes(piece)
