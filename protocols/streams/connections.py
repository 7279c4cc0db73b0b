"""Connections to containers: HTTP requests upgraded to SPDY, two websockets joined, redirects rejected.

aiohttp has no upgrade to SPDY; knowledge of its internals is only here. An upgraded connection is used like a
websocket: messages in, messages out.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Protocol

import aiohttp
from aiohttp import web

from protocols.errors import NodeplaneError
from protocols.process.tasks import awaited, cancel
from protocols.serving.connection import Detached

SPDY = "SPDY/3.1"
VERSION_HEADER = "X-Stream-Protocol-Version"
FORWARD = "portforward.k8s.io"
"""Sub-protocol of port-forward."""
AHEAD = 256 * 1024
"""Bytes received and not yet read, before the peer is held back."""
PARTING_S = 2.0
"""Seconds a peer has to close after the last message, so that no reset overtakes it."""


def is_spdy_request(request: web.BaseRequest) -> bool:
    """Return True if the request's Upgrade header names SPDY 3.1."""
    return request.headers.get("Upgrade", "").lower() == SPDY.lower()


def offered(request: web.BaseRequest) -> list[str]:
    """Return the sub-protocols that the client knows, its favourite first."""
    values = request.headers.getall(VERSION_HEADER, [])
    return [part.strip() for value in values for part in value.split(",")]


class Wire(asyncio.Protocol):
    """Replaces aiohttp's protocol on the transport; both are notified of the end of the connection."""

    def __init__(self, request: web.BaseRequest, transport: asyncio.Transport) -> None:
        self._http = request.protocol
        self._transport = transport
        self._received = bytearray()
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._paused = False
        self._ended = False

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._readable.set()
        if len(self._received) > AHEAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        self._end()
        return True  # what is still to be said can be said

    def connection_lost(self, error: Exception | None) -> None:
        self._end()
        self._http.connection_lost(error)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def read(self) -> bytes:
        """Return the bytes received so far; waits for some, empty at the end."""
        while not self._received and not self._ended:
            self._readable.clear()
            await self._readable.wait()
        data = bytes(self._received)
        self._received.clear()
        if self._paused:
            self._paused = False
            with contextlib.suppress(RuntimeError):  # it is being closed
                self._transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        if self._transport.is_closing():
            raise ConnectionResetError("the client is gone")
        self._transport.write(data)
        await self._writable.wait()

    def _end(self) -> None:
        self._ended = True
        self._readable.set()
        self._writable.set()


class ByteWire(Protocol):
    """Bytes of a connection that has left HTTP behind."""

    async def read(self) -> bytes:
        """Return the bytes received so far; waits for some, empty at the end."""

    async def write(self, data: bytes) -> None:
        """Raises ConnectionError."""


class Socket(Protocol):
    """A websocket, or a connection that is used like one."""

    @property
    def close_code(self) -> int | None: ...

    async def receive(self) -> aiohttp.WSMessage: ...

    async def send_bytes(self, data: bytes) -> None:
        """Raises ConnectionError."""

    async def send_str(self, data: str) -> None:
        """Raises ConnectionError."""

    async def close(self, *, code: int = ..., message: bytes = ...) -> bool: ...

    def __aiter__(self) -> AsyncIterator[aiohttp.WSMessage]: ...


class Received:
    """Iteration over what `receive` returns, as websockets have it."""

    async def receive(self) -> aiohttp.WSMessage:
        raise NotImplementedError

    def __aiter__(self) -> AsyncIterator[aiohttp.WSMessage]:
        return self

    async def __anext__(self) -> aiohttp.WSMessage:
        message = await self.receive()
        if message.type not in MESSAGES:
            raise StopAsyncIteration
        return message


MESSAGES = (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT)


class Spdy(Received):
    """The bytes of a bare SPDY connection as binary messages: for port-forward, whose frames the far end reads."""

    protocol = ""

    def __init__(self, wire: ByteWire) -> None:
        self._wire = wire
        self.close_code: int | None = None

    @property
    def answer(self) -> web.StreamResponse:
        """The response that a handler returns at the end."""
        return Detached()

    async def receive(self) -> aiohttp.WSMessage:
        if self.close_code is None and (data := await self._wire.read()):
            return aiohttp.WSMessage(aiohttp.WSMsgType.BINARY, data, None)
        self.close_code = self.close_code or aiohttp.WSCloseCode.GOING_AWAY.value
        return aiohttp.WSMessage(aiohttp.WSMsgType.CLOSED, None, None)

    async def send_bytes(self, data: bytes) -> None:
        """Raises ConnectionError."""
        await self._wire.write(data)

    async def send_str(self, data: str) -> None:
        """Do nothing: SPDY has no text messages."""

    async def close(self, *, code: int = aiohttp.WSCloseCode.OK, message: bytes = b"") -> bool:
        """The transport itself is closed by the HTTP server, once its handler has returned."""
        if self.close_code is None:
            self.close_code = int(code)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PARTING_S):
                while await self._wire.read():
                    pass
        return True


def upgrade(request: web.BaseRequest, protocol: str) -> Wire:
    """Answer the handshake. Raises ConnectionResetError when the client is gone."""
    transport = request.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the client is gone")
    wire = Wire(request, transport)
    transport.set_protocol(wire)
    lines = ("HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", f"Upgrade: {SPDY}")
    head = "\r\n".join((*lines, f"{VERSION_HEADER}: {protocol}", "", ""))
    transport.write(head.encode())
    return wire


_GOING = aiohttp.WSCloseCode.GOING_AWAY.value
_TELLABLE = frozenset(code.value for code in aiohttp.WSCloseCode) - {aiohttp.WSCloseCode.ABNORMAL_CLOSURE.value}


async def join(left: Socket, right: Socket, passes: Callable[[bytes], bool] | None = None) -> None:
    """Copy messages both ways until one end is closed, then close the other with the same code.

    `passes` decides which messages reach `right`; None passes all.
    """
    ways = [awaited(_copy(left, right, passes)), awaited(_copy(right, left))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel(*ways)
        code = next((end.close_code for end in (left, right) if end.close_code in _TELLABLE), _GOING)
        for end in (left, right):
            await end.close(code=code or _GOING)


async def _copy(source: Socket, sink: Socket, passes: Callable[[bytes], bool] | None = None) -> None:
    while True:
        message = await source.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            if passes is None or passes(message.data):
                await sink.send_bytes(message.data)
        elif message.type is aiohttp.WSMsgType.TEXT:
            await sink.send_str(message.data)
        else:
            return


class RedirectRefused(NodeplaneError, aiohttp.ClientError, http=503, grpc="UNAVAILABLE"):
    """Raised when a server answers with a redirect: it would choose whom its caller talks to next, and how."""


def no_redirects() -> aiohttp.TraceConfig:
    """Return what a session is made with so that each redirect raises RedirectRefused before it is followed."""
    config = aiohttp.TraceConfig()
    config.on_request_redirect.append(_refuse)
    return config


async def _refuse(
    session: aiohttp.ClientSession, context: SimpleNamespace, redirect: aiohttp.TraceRequestRedirectParams
) -> None:
    redirect.response.close()
    raise RedirectRefused(f"it answers {redirect.response.status}, and redirects are forbidden")
