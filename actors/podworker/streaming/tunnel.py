"""Streams of runtimes that speak SPDY on the bare connection (containerd, CRI-O).

Port-forward's bytes leave the websocket's messages here, and are not looked at; those of exec and attach become SPDY.
"""

import asyncio
import contextlib

import aiohttp
from aiohttp import web

from actors.podworker.streaming.connecting import check_upgrade
from actors.podworker.streaming.errors import RuntimeAway
from actors.podworker.streaming.query import ExecOptions
from actors.podworker.streaming.upgrading import RuntimeWire, upgraded
from protocols.streams.channels import (
    CHANNEL_PROTOCOLS,
    ERROR,
    LARGEST_MESSAGE,
    PING_S,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    TUNNEL,
    V4,
)
from protocols.streams.join import join
from protocols.streams.spdy.command import Command
from protocols.streams.spdy.upgrade import FORWARD


async def command(request: web.BaseRequest, url: str, options: ExecOptions) -> web.StreamResponse:
    """Exec or attach. Raises RequestInvalid, and RuntimeAway when the runtime does not open the connection."""
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
        raise RuntimeAway(f"the container runtime does not open the stream: {error}") from None
    return runtime


def _channels(options: ExecOptions) -> set[int]:
    asked = {STDIN: options.stdin, STDOUT: options.stdout, STDERR: options.stderr, RESIZE: options.tty}
    return {ERROR} | {channel for channel, wanted in asked.items() if wanted}


async def tunnel(request: web.BaseRequest, url: str) -> web.StreamResponse:
    """Port-forward. Raises RuntimeAway when the runtime does not open the connection."""
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
