"""From the API server's websocket to the runtime's: the node passes on what either says."""

import contextlib

import aiohttp
from aiohttp import web

from actors.podworker.streaming.errors import RequestInvalid
from protocols.streams.channels import (
    CHANNEL_PROTOCOLS,
    CLOSE,
    ERROR,
    LARGEST_MESSAGE,
    PING_S,
    V4,
    failure_status,
)
from protocols.streams.join import join
from protocols.streams.redirects import no_redirects

CONNECT_S = 10.0
CLOSE_S = 2.0


async def connect(
    request: web.BaseRequest, url: str, protocols: tuple[str, ...] = CHANNEL_PROTOCOLS
) -> web.StreamResponse:
    """Raises RequestInvalid when the client does not ask for a websocket."""
    check_upgrade(request, protocols)
    client = web.WebSocketResponse(protocols=protocols, compress=False, max_msg_size=LARGEST_MESSAGE, heartbeat=PING_S)
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
            await _tell(client, protocols, f"the container runtime does not open the stream: {error}")
            return client
        async with runtime:
            await join(client, runtime, _not_close if runtime.protocol == V4 else None)
    return client


def check_upgrade(request: web.BaseRequest, protocols: tuple[str, ...]) -> None:
    if request.headers.get("Upgrade", "").lower() != "websocket":
        raise RequestInvalid(f"use a websocket with protocol {' or '.join(protocols)}")


def _not_close(data: bytes) -> bool:
    """The older protocol cannot say that a stream has ended."""
    return data[:1] != bytes([CLOSE])


async def _tell(client: web.WebSocketResponse, protocols: tuple[str, ...], message: str) -> None:
    with contextlib.suppress(ConnectionError):
        if protocols == CHANNEL_PROTOCOLS:
            await client.send_bytes(bytes([ERROR]) + failure_status(message))
        await client.close(code=aiohttp.WSCloseCode.TRY_AGAIN_LATER, message=message.encode()[:120])
