"""The accepting end of exec, attach and port-forward: SPDY or a websocket, in the protocol that the client prefers.

Commands then have the messages of `v5.channel.k8s.io`, port-forwards the bytes of a SPDY connection.
"""

import asyncio
import contextlib
import socket
import typing
from collections.abc import Coroutine

import msgspec
from aiohttp import WSCloseCode, web

from protocols.errors import NodeplaneError
from protocols.process.tasks import awaited
from protocols.streams.channels import ERROR, LARGEST_MESSAGE, STDERR, STDOUT, TUNNEL, V4, V5
from protocols.streams.connections import FORWARD, VERSION_HEADER, Socket, Spdy, is_spdy_request, offered, upgrade
from protocols.streams.masked import MaskedSocket
from protocols.streams.port_channels import PortChannels
from protocols.streams.spdy_channels import OFFERED, SpdyChannels
from protocols.streams.websocket_channels import BASE64_V4, CODECS, UNNAMED, WebsocketChannels

FORWARD_PROTOCOLS = (TUNNEL, V4, BASE64_V4, UNNAMED)
KEEPALIVE_IDLE_S, KEEPALIVE_PROBE_S, KEEPALIVE_PROBES = 30, 10, 3


class ProtocolUnknown(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when a client asks for no connection, or in protocols that are not spoken."""


class Protocol(msgspec.Struct, frozen=True):
    """The protocol of a client."""

    name: str
    spdy: bool = False


def is_websocket_request(request: web.BaseRequest) -> bool:
    """Return True if the request's Upgrade header names a websocket; SPDY is the other choice."""
    return request.headers.get("Upgrade", "").lower() == "websocket"


def command_protocol(request: web.BaseRequest) -> Protocol:
    """Return the protocol of exec or attach. Raises ProtocolUnknown."""
    return _protocol(request, OFFERED, (V5,), tuple(CODECS))


def forward_protocol(request: web.BaseRequest) -> Protocol:
    """Return the protocol of a port-forward. Raises ProtocolUnknown."""
    return _protocol(request, FORWARD, (TUNNEL,), FORWARD_PROTOCOLS)


def _protocol(request: web.BaseRequest, spdy: str, best: tuple[str, ...], known: tuple[str, ...]) -> Protocol:
    if is_spdy_request(request):
        if spdy not in offered(request):
            raise ProtocolUnknown(f"over SPDY only the protocol {spdy} is spoken; offer it in {VERSION_HEADER}")
        return Protocol(spdy, spdy=True)
    if not is_websocket_request(request):
        named = " or ".join(filter(None, known))
        raise ProtocolUnknown(f"connect by SPDY/3.1, or by a websocket with the protocol {named}")
    return Protocol(websocket_protocol(request, best, known))


def websocket_protocol(request: web.BaseRequest, best: tuple[str, ...], known: tuple[str, ...]) -> str:
    """Return one of `best` if the client offers it, else the first it offers that is known. Raises ProtocolUnknown."""
    values = request.headers.getall("Sec-WebSocket-Protocol", [])
    offers = [part.strip() for value in values for part in value.split(",")] or [UNNAMED]
    for protocol in (*(name for name in best if name in offers), *offers):
        if protocol in known:
            return protocol
    named = " or ".join(filter(None, known))
    raise ProtocolUnknown(f"none of the offered websocket protocols is known; offer {named}")


class Accepted(msgspec.Struct, frozen=True):
    """A client's connection, and the response that the handler of its request returns at the end."""

    socket: Socket | None
    """None if the client did not open its channels."""
    response: web.StreamResponse


async def accept_command(request: web.BaseRequest, protocol: Protocol, channels: set[int]) -> Accepted:
    """Answer the handshake of exec or attach. Raises ConnectionError."""
    if protocol.spdy:
        spdy = SpdyChannels(upgrade(request, protocol.name))
        keep_alive(request.transport)
        return Accepted(spdy if await spdy.open(channels) else None, spdy.answer)
    response = await accept_websocket(request, protocol.name)
    client = WebsocketChannels(response, protocol.name)
    await client.begin(next((channel for channel in (STDOUT, STDERR) if channel in channels), ERROR))
    return Accepted(client, response)


async def accept_forward(request: web.BaseRequest, protocol: Protocol, ports: tuple[int, ...]) -> Accepted:
    """Answer the handshake of a port-forward; `ports` are for websockets without a tunnel. Raises ConnectionError."""
    if protocol.spdy:
        client = Spdy(upgrade(request, protocol.name))
        keep_alive(request.transport)
        return Accepted(client, client.answer)
    response = await accept_websocket(request, protocol.name)
    if protocol.name == TUNNEL:
        return Accepted(response, response)
    channels = PortChannels(response, protocol.name, ports)
    await channels.open()
    return Accepted(channels, response)


async def accept_websocket(request: web.BaseRequest, protocol: str) -> web.WebSocketResponse:
    """Answer the handshake of a websocket. Raises ConnectionError, and ProtocolUnknown for one that is no handshake.

    No pings are sent: clients that read only now and then, like Python's, answer them too late. TCP notices lost peers.
    """
    protocols = (protocol,) if protocol else ()
    response = MaskedSocket(protocols=protocols, compress=False, max_msg_size=LARGEST_MESSAGE)
    try:
        await response.prepare(request)
    except web.HTTPBadRequest as error:
        raise ProtocolUnknown(" ".join((error.text or "").split())) from None
    keep_alive(request.transport)
    return response


async def send_until_closed(response: web.WebSocketResponse, sending: Coroutine[None, None, None]) -> None:
    """Send until `sending` ends or the client closes, then close. What the client sends is dropped."""
    tasks = awaited(_drop_messages(response)), awaited(sending)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        broken = isinstance(ends[1], Exception)
        await response.close(code=WSCloseCode.INTERNAL_ERROR if broken else WSCloseCode.OK)


async def _drop_messages(response: web.WebSocketResponse) -> None:
    async for _ in response:
        pass


class Informed(typing.Protocol):
    """A transport, or what has one."""

    def get_extra_info(self, name: str, default: typing.Any = None) -> typing.Any: ...


def keep_alive(peer: Informed | None) -> None:
    """Have the kernel notice within a minute that the peer is gone."""
    connection = peer.get_extra_info("socket") if peer is not None else None
    if connection is None:
        return
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_PROBE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
