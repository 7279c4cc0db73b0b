"""Port-forward with runtimes that speak SPDY on the bare connection (containerd, CRI-O).

Its bytes leave the websocket's messages here, and are not looked at.
"""

import asyncio
import contextlib
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from actors.podworker.streaming.errors import RuntimeAway
from protocols.streams.channels import LARGEST_MESSAGE, PING_S, TUNNEL

OPEN_S = 10.0
CHUNK = 32 * 1024
PROTOCOL = "portforward.k8s.io"


async def tunnel(request: web.BaseRequest, url: str) -> web.StreamResponse:
    """Raises RuntimeAway when the runtime does not open the connection."""
    reader, writer = await _upgraded(url)
    client = web.WebSocketResponse(protocols=(TUNNEL,), compress=False, max_msg_size=LARGEST_MESSAGE, heartbeat=PING_S)
    ways: list[asyncio.Future[None]] = []
    try:
        await client.prepare(request)
        ways = [asyncio.ensure_future(_in(client, writer)), asyncio.ensure_future(_out(reader, client))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        writer.close()
        if client.prepared:
            await client.close()
    return client


async def _upgraded(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    where = urlsplit(url)
    path = where.path + (f"?{where.query}" if where.query else "")
    order = (
        f"POST {path} HTTP/1.1\r\nHost: {where.netloc}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        f"X-Stream-Protocol-Version: {PROTOCOL}\r\nContent-Length: 0\r\n\r\n"
    )
    try:
        async with asyncio.timeout(OPEN_S):
            reader, writer = await asyncio.open_connection(where.hostname, where.port or 80)
            writer.write(order.encode())
            answer = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].decode(errors="replace")
    except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError) as error:
        raise RuntimeAway(f"the container runtime does not open the stream: {error}") from None
    if answer.split(" ")[1:2] != ["101"]:
        writer.close()
        raise RuntimeAway(f"the container runtime does not open the stream: it answered {answer!r}")
    return reader, writer


async def _in(client: web.WebSocketResponse, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        async for message in client:
            if message.type is aiohttp.WSMsgType.BINARY:
                writer.write(message.data)
                await writer.drain()


async def _out(reader: asyncio.StreamReader, client: web.WebSocketResponse) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            await client.send_bytes(data)
