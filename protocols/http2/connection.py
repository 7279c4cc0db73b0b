"""An open connection that carries gRPC calls: the socket and the clock around a Session."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from protocols.http2.client_session import Http2Session
from protocols.http2.frames import BadHttp2
from protocols.http2.hpack import Header

QUIET_S = 6.0
"""Silence, with calls under way, after which the server is pinged. etcd ends connections that ping more often than each
5 s."""
PATIENCE_S = 4.0
"""Time for the answer to a ping."""
CONNECT_S = 3.0
PONG_S = 0.01
"""Delay of an answer to a ping. Go's servers measure latency with a ping for the next message after the last answer:
answered at once, that is a ping for nearly each message, and costs both sides as much as the call."""
UNREAD = 64 << 20
"""Bytes that a server does not read while it sends, after which the connection ends: answers to settings and pings grow
with what it sends."""
LOST = "the connection broke"


class CallListener(Protocol):
    """Callbacks of a connection, in the event loop; each call has exactly one end, unless it was cancelled."""

    def on_begun(self, number: int) -> None:
        """Note the headers of an answer that is no immediate error."""

    def on_message(self, number: int, message: bytes) -> None: ...

    def on_end(self, number: int, code: str, text: str) -> None:
        """Note the end of a call; `code` is a name of gRPC's, OK among them."""

    def on_lost(self, connection: "Http2Connection") -> None:
        """Note that the connection is lost; the ends of its calls follow."""


class Address(msgspec.Struct, frozen=True):
    """A server's host and port, or the `path` of its unix socket."""

    host: str = "localhost"
    port: int = 0
    path: str = ""
    tls: Callable[[], ssl.SSLContext] | None = None
    """Called for each connection."""
    largest: int = 16 << 20
    """Bytes of one message."""
    greets: bool = False
    """Wait for the server's settings: it may reject a client only after the handshake, and the kernel connects to a
    server that hangs."""
    asks: bool = False
    """Ping a silent server. Most servers in Go end connections that do."""

    @property
    def authority(self) -> str:
        if not self.port:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Http2Connection(asyncio.Protocol):
    """Connection to one server; the listener gets the messages and ends of its calls, and its loss."""

    def __init__(self, address: Address, listener: CallListener) -> None:
        self._address, self._listener = address, listener
        self._session = Http2Session(listener.on_message, self._ended, address.largest, listener.on_begun)
        self._headers: dict[str, tuple[Header, ...]] = {}
        self._begun: set[int] = set()
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._received_at = 0.0
        self._pinged = False
        self._alarm: asyncio.TimerHandle | None = None
        self._pong: asyncio.TimerHandle | None = None
        self._soon = False
        """A flush at the end of this turn of the loop is due: calls made in one turn share a write."""
        self._greeted: asyncio.Future[None] | None = None

    @property
    def draining(self) -> bool:
        """New calls need another connection; those under way may finish.

        True once the transport is closing; connection_lost comes a turn of the loop later.
        """
        return self._session.draining or (self._transport is not None and self._transport.is_closing())

    def send(self, number: int, path: str, message: bytes, last: bool, more: tuple[Header, ...] = ()) -> None:
        """Send a message. The first one of a number begins its call; `last` marks the end of the client's messages."""
        if number not in self._begun:
            self._begun.add(number)
            self._session.call(number, self._headers_of(path, more))
        self._session.send(number, message, last)
        if not self._soon:
            self._soon = True
            self._loop.call_soon(self._flush_soon)
        if self._alarm is None and self._address.asks:
            self._received_at = self._loop.time()
            self._alarm = self._loop.call_later(QUIET_S, self._check_silence)

    async def greeted(self) -> None:
        """Wait for the server's settings. Raises OSError when it hangs up instead."""
        if not self._session.set_up:
            self._greeted = self._loop.create_future()
            await self._greeted

    def cancel(self, number: int) -> None:
        """Cancel a call; it has no end."""
        self._begun.discard(number)
        self._session.cancel(number)
        self._flush()

    def pause(self, pause: bool) -> None:
        """Stop or resume reading from the socket; while paused, silence means nothing."""
        transport = self._transport
        if transport is not None and not transport.is_closing() and transport.is_reading() == pause:
            transport.pause_reading() if pause else transport.resume_reading()
            self._received_at = self._loop.time()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a socket's is one for both directions
        self._received_at = self._loop.time()
        if self._address.asks and self._address.port:
            # A call may end before it is worth asking: who takes no bytes any more is found out by the kernel.
            wire = transport.get_extra_info("socket")
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * (QUIET_S + PATIENCE_S)))
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._received_at, self._pinged = self._loop.time(), False
        try:
            self._session.feed(data)
        except BadHttp2:
            self.close()
        if self._transport is not None and self._transport.get_write_buffer_size() > UNREAD:
            self.close()
        if self._greeted is not None and not self._greeted.done() and self._session.set_up:
            self._greeted.set_result(None)
        if self._session.pressing or self._session.draining:
            self._flush()
        if self._session.waiting and self._pong is None:
            self._pong = self._loop.call_later(PONG_S, self._answer)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._greeted is not None and not self._greeted.done():
            self._greeted.set_exception(ConnectionResetError(str(error or LOST)))
        for timer in (self._alarm, self._pong):
            if timer is not None:
                timer.cancel()
        self._listener.on_lost(self)
        self._session.lost(LOST)

    def _ended(self, number: int, code: str, text: str) -> None:
        self._begun.discard(number)
        self._listener.on_end(number, code, text)

    def _answer(self) -> None:
        self._pong = None
        self._flush(answers=True)

    def _flush_soon(self) -> None:
        self._soon = False
        self._flush()

    def _flush(self, answers: bool = False) -> None:
        data = self._session.take(answers)
        if self._transport is None:
            return
        if data:
            self._transport.write(data)
        if self._session.draining and not self._session.busy:
            self._transport.close()

    def _headers_of(self, path: str, more: tuple[Header, ...]) -> tuple[Header, ...]:
        """Return the headers of a call, cached by path: there are as many as the code has methods."""
        headers = self._headers.get(path)
        if headers is None:
            headers = self._headers[path] = (
                (b":method", b"POST"),
                (b":scheme", b"https" if self._address.tls else b"http"),
                (b":path", path.encode()),
                (b":authority", self._address.authority.encode()),
                (b"te", b"trailers"),
                (b"content-type", b"application/grpc"),
            )
        return headers + more

    def _check_silence(self) -> None:
        """Ping a silent server, close after a ping without an answer; runs while calls are under way."""
        self._alarm = None
        transport, quiet = self._transport, self._loop.time() - self._received_at
        if transport is None or not self._session.busy:
            return
        wait = QUIET_S - quiet
        if not transport.is_reading():
            wait = QUIET_S
        elif self._pinged:
            self.close()
            return
        elif wait <= 0:
            self._pinged, wait = True, PATIENCE_S
            self._session.ping()
            self._flush()
        self._alarm = self._loop.call_later(wait, self._check_silence)


async def dial(address: Address, listener: CallListener) -> Http2Connection:
    """Open a connection. Raises OSError; a fault of TLS is one, too."""
    loop = asyncio.get_running_loop()
    factory: Callable[[], Http2Connection] = partial(Http2Connection, address, listener)
    connection: Http2Connection | None = None
    try:
        async with asyncio.timeout(CONNECT_S):
            if address.path:
                _, connection = await loop.create_unix_connection(factory, address.path)
            else:
                tls = address.tls() if address.tls else None
                _, connection = await loop.create_connection(factory, address.host, address.port, ssl=tls)
            if address.greets:
                await connection.greeted()
    except TimeoutError:
        if connection is not None:
            connection.close()
        raise OSError(f"{address.path or address.authority} does not answer") from None
    except asyncio.CancelledError:
        if connection is not None:
            connection.close()
        raise
    if connection.draining:  # lost before its owner has it: a call on it would have no end
        connection.close()
        raise ConnectionResetError(LOST)
    return connection
