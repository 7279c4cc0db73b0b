"""Connect the API server's websocket to the stream of the container runtime.

The embedded runtime speaks the websocket protocols itself. containerd and CRI-O speak SPDY on the bare connection: the
bytes of a port-forward leave the websocket's messages here unchanged, those of exec and attach become SPDY.
"""

import asyncio
import contextlib
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from actors.podworker.endpoint.errors import RequestInvalid, RuntimeUnavailable
from actors.podworker.endpoint.requests import ExecOptions
from protocols.streams.channels import (
    CHANNEL_PROTOCOLS,
    CLOSE,
    ERROR,
    LARGEST_MESSAGE,
    PING_S,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    TUNNEL,
    V4,
    failure_status,
)
from protocols.streams.connections import FORWARD, SPDY, VERSION_HEADER, join, no_redirects
from protocols.streams.spdy_channels import Command

CONNECT_S = 10.0
CLOSE_S = 2.0
OPEN_S = 10.0
CHUNK = 32 * 1024


async def connect(
    request: web.BaseRequest, url: str, protocols: tuple[str, ...] = CHANNEL_PROTOCOLS
) -> web.StreamResponse:
    """Join the client's websocket with that of the runtime.

    Raises RequestInvalid if the client requests no websocket.
    """
    check_upgrade(request, protocols)
    client = _websocket(protocols)
    await client.prepare(request)
    limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
    async with aiohttp.ClientSession(timeout=limit, trace_configs=[no_redirects()]) as session:
        try:
            runtime = await session.ws_connect(
                url,
                protocols=protocols,
                max_msg_size=LARGEST_MESSAGE,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S),
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            await _send_failure(client, protocols, f"the container runtime does not open the stream: {error}")
            return client
        async with runtime:
            await join(client, runtime, _not_close if runtime.protocol == V4 else None)
    return client


def check_upgrade(request: web.BaseRequest, protocols: tuple[str, ...]) -> None:
    if request.headers.get("Upgrade", "").lower() != "websocket":
        raise RequestInvalid(f"use a websocket with protocol {' or '.join(protocols)}")


def _not_close(data: bytes) -> bool:
    """Filter close messages: protocol v4 cannot signal the end of a stream."""
    return data[:1] != bytes([CLOSE])


async def _send_failure(client: web.WebSocketResponse, protocols: tuple[str, ...], message: str) -> None:
    with contextlib.suppress(ConnectionError):
        if protocols == CHANNEL_PROTOCOLS:
            await client.send_bytes(bytes([ERROR]) + failure_status(message))
        await client.close(code=aiohttp.WSCloseCode.TRY_AGAIN_LATER, message=message.encode()[:120])


class RuntimeWire:
    """Raw connection to the runtime after the HTTP upgrade."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Return available bytes; empty at the end."""
        try:
            return await self._reader.read(CHUNK)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Raises ConnectionError."""
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


async def upgraded(url: str, protocol: str) -> RuntimeWire:
    """Open a connection to the runtime's streaming server and upgrade it. Raises RuntimeUnavailable."""
    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    order = (
        f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: Upgrade\r\nUpgrade: {SPDY}\r\n"
        f"{VERSION_HEADER}: {protocol}\r\nContent-Length: 0\r\n\r\n"
    )
    try:
        async with asyncio.timeout(OPEN_S):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
            writer.write(order.encode())
            answer = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].decode(errors="replace")
    except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError) as error:
        raise RuntimeUnavailable(f"the container runtime does not open the stream: {error}") from None
    if answer.split(" ")[1:2] != ["101"]:
        writer.close()
        raise RuntimeUnavailable(f"the container runtime does not open the stream: it answered {answer!r}")
    return RuntimeWire(reader, writer)


async def command(request: web.BaseRequest, url: str, options: ExecOptions) -> web.StreamResponse:
    """Serve exec or attach over SPDY. Raises RequestInvalid or RuntimeUnavailable."""
    check_upgrade(request, CHANNEL_PROTOCOLS)
    wire = await upgraded(url, V4)
    client = _websocket(CHANNEL_PROTOCOLS)
    try:
        runtime = await _opened(wire, options)
        await client.prepare(request)
        with contextlib.suppress(ConnectionError):
            await join(client, runtime)
    finally:
        wire.close()
    return client


async def _opened(wire: RuntimeWire, options: ExecOptions) -> Command:
    runtime = Command(wire)
    try:
        await runtime.open(_channels(options))
    except ConnectionError as error:
        raise RuntimeUnavailable(f"the container runtime does not open the stream: {error}") from None
    return runtime


def _channels(options: ExecOptions) -> set[int]:
    requested = {STDIN: options.stdin, STDOUT: options.stdout, STDERR: options.stderr, RESIZE: options.tty}
    return {ERROR} | {channel for channel, enabled in requested.items() if enabled}


async def tunnel(request: web.BaseRequest, url: str) -> web.StreamResponse:
    """Serve a port-forward over SPDY. Raises RuntimeUnavailable."""
    wire = await upgraded(url, FORWARD)
    client = _websocket((TUNNEL,))
    ways: list[asyncio.Future[None]] = []
    try:
        await client.prepare(request)
        ways = [asyncio.ensure_future(_in(client, wire)), asyncio.ensure_future(_out(wire, client))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        wire.close()
        if client.prepared:
            await client.close()
    return client


def _websocket(protocols: tuple[str, ...]) -> web.WebSocketResponse:
    return web.WebSocketResponse(protocols=protocols, compress=False, max_msg_size=LARGEST_MESSAGE, heartbeat=PING_S)


async def _in(client: web.WebSocketResponse, wire: RuntimeWire) -> None:
    with contextlib.suppress(OSError):
        async for message in client:
            if message.type is aiohttp.WSMsgType.BINARY:
                await wire.write(message.data)


async def _out(wire: RuntimeWire, client: web.WebSocketResponse) -> None:
    with contextlib.suppress(OSError):
        while data := await wire.read():
            await client.send_bytes(data)
