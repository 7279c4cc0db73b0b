"""Connect a client of the node endpoint to the stream of the container runtime.

The embedded runtime is called with websockets. containerd and CRI-O are called with SPDY on the bare connection, since
their websockets cannot end an input. Clients may speak either: kube-apiserver calls with websockets since 1.36.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from actors.podworker.endpoint.errors import RequestInvalid, RuntimeUnavailable
from actors.podworker.endpoint.requests import ExecOptions
from protocols.streams.accepting import (
    ProtocolUnknown,
    accept_command,
    accept_forward,
    command_protocol,
    forward_protocol,
)
from protocols.streams.channels import (
    CHANNEL_PROTOCOLS,
    CLOSE,
    ERROR,
    LARGEST_MESSAGE,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    TUNNEL,
    V4,
)
from protocols.streams.connections import FORWARD, Socket, Spdy, join, no_redirects
from protocols.streams.port_channels import PortsInvalid, ports_of
from protocols.streams.spdy_channels import SpdyCommand
from protocols.streams.spdy_dial import DialedWire, NotUpgraded, Upgrade, dial
from protocols.streams.turns import DialedSocket

CONNECT_S = 10.0
CLOSE_S = 2.0


async def serve_command(
    request: web.BaseRequest, url: str, options: ExecOptions, bare_spdy: bool
) -> web.StreamResponse:
    """Serve exec or attach. Raises RequestInvalid, RuntimeUnavailable."""
    try:
        protocol = command_protocol(request)
    except ProtocolUnknown as error:
        raise RequestInvalid(str(error)) from None
    channels = _channels(options)
    async with _command(url, channels) if bare_spdy else _websocket(url, CHANNEL_PROTOCOLS) as runtime:
        client = await accept_command(request, protocol, channels)
        if client.socket is not None:
            await join(client.socket, runtime, _not_close if getattr(runtime, "protocol", "") == V4 else None)
    return client.response


async def serve_forward(request: web.BaseRequest, url: str, bare_spdy: bool) -> web.StreamResponse:
    """Serve a port-forward. Raises RequestInvalid, RuntimeUnavailable."""
    try:
        protocol = forward_protocol(request)
        tunnel = protocol.spdy or protocol.name == TUNNEL
        ports = () if tunnel else ports_of(request.query.getall("port", []))
    except (ProtocolUnknown, PortsInvalid) as error:
        raise RequestInvalid(str(error)) from None
    async with _forward(url) if bare_spdy else _websocket(url, (TUNNEL,)) as runtime:
        client = await accept_forward(request, protocol, ports)
        if client.socket is not None:
            await join(client.socket, runtime)
    return client.response


def _not_close(data: bytes) -> bool:
    """Filter close messages: protocol v4 cannot signal the end of a stream."""
    return data[:1] != bytes([CLOSE])


def _channels(options: ExecOptions) -> set[int]:
    requested = {STDIN: options.stdin, STDOUT: options.stdout, STDERR: options.stderr, RESIZE: options.tty}
    return {ERROR} | {channel for channel, enabled in requested.items() if enabled}


@asynccontextmanager
async def _websocket(url: str, protocols: tuple[str, ...]) -> AsyncIterator[Socket]:
    """Raises RuntimeUnavailable."""
    limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
    async with aiohttp.ClientSession(
        timeout=limit, trace_configs=[no_redirects()], ws_response_class=DialedSocket
    ) as session:
        closing = aiohttp.ClientWSTimeout(ws_close=CLOSE_S)
        try:
            runtime = await session.ws_connect(url, protocols=protocols, max_msg_size=LARGEST_MESSAGE, timeout=closing)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _not_opened(error) from None
        async with runtime:
            yield runtime


@asynccontextmanager
async def _command(url: str, channels: set[int]) -> AsyncIterator[Socket]:
    """Raises RuntimeUnavailable."""
    async with _dialed(url, V4) as wire:
        runtime = SpdyCommand(wire)
        try:
            await runtime.open(channels)
        except ConnectionError as error:
            raise _not_opened(error) from None
        yield runtime


@asynccontextmanager
async def _forward(url: str) -> AsyncIterator[Socket]:
    """Raises RuntimeUnavailable."""
    async with _dialed(url, FORWARD) as wire:
        yield Spdy(wire)


@asynccontextmanager
async def _dialed(url: str, protocol: str) -> AsyncIterator[DialedWire]:
    """Raises RuntimeUnavailable."""
    try:
        wire = await dial(Upgrade(url, protocol))
    except (OSError, TimeoutError, NotUpgraded) as error:
        raise _not_opened(error) from None
    try:
        yield wire
    finally:
        wire.close()


def _not_opened(error: BaseException) -> RuntimeUnavailable:
    why = " ".join(str(error).split()) or type(error).__name__
    return RuntimeUnavailable(f"the container runtime does not open the stream: {why}")
