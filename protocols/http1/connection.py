"""One connection to an HTTP/1.1 server, with one request at a time."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from functools import partial

import msgspec

from protocols.http1.response import HttpFailed, Response, ResponseInvalid, ResponseReader
from protocols.process.deadlines import Deadlines

CONNECT_S = 5.0
"""Longest time for a connection and its TLS handshake."""
AHEAD = 256 << 10
"""Bytes of a stream that nobody has taken, above which the server is held back."""


class NotSent(HttpFailed):
    """Raised when there is no connection: nothing of the request was sent."""


class Refused(NotSent):
    """Raised when nobody listens at the server's address."""


class ConnectionBroken(HttpFailed):
    """Raised when a connection ends before its response: the request may have been carried out."""


class Address(msgspec.Struct, frozen=True):
    """A server's place, and how it is verified."""

    host: str
    port: int
    tls: Callable[[], ssl.SSLContext] | None = None
    """Called for new connections and now and then: those of an older context are not used again."""
    server_name: str | None = None
    """The name in the server's certificate, if not the host."""


class Http1Connection(asyncio.Protocol):
    """An open connection. One call of `exchange` or `begin`, and more while it is `reusable`."""

    def __init__(self, context: ssl.SSLContext | None, deadlines: Deadlines) -> None:
        self.context = context
        self._deadlines = deadlines
        self.idle_since = 0.0
        """Loop time."""
        self._loop = asyncio.get_running_loop()
        self._reader = ResponseReader()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: HttpFailed | None = None
        """Why it has ended."""
        self._limit = 0
        """Bytes of a body that is read as a whole; 0 for a stream."""

    @property
    def reusable(self) -> bool:
        reader, transport = self._reader, self._transport
        return transport is not None and not transport.is_closing() and reader.complete and reader.keep_alive

    @property
    def status(self) -> int:
        return self._reader.status

    async def exchange(self, request: bytes, limit: int) -> Response:
        """Send a request and return the response with a body of at most `limit` bytes.

        Raises NotSent, ConnectionBroken, ResponseInvalid.
        """
        self._send(request, limit)
        await self._progress()
        return self.response(self._reader.take())

    async def begin(self, request: bytes) -> None:
        """Send a request and wait for the headers of its response. Raises as `exchange`."""
        self._send(request, 0)
        while not self._reader.status:
            await self._progress()

    async def chunks(self, silence: float) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, until its end.

        Raises ConnectionBroken, ResponseInvalid, and TimeoutError after `silence` seconds without a byte.
        """
        reader = self._reader
        while True:
            if reader.size:
                yield reader.take()
            elif reader.complete:
                return
            else:
                self._resume()
                with self._deadlines.within(silence):
                    await self._progress()

    def response(self, body: bytes) -> Response:
        return Response(self._reader.status, self._reader.headers, body)

    def abort(self) -> None:
        """Close at once: TLS would wait for the server's answer to a polite end."""
        if self._transport is not None:
            self._transport.abort()

    def _send(self, request: bytes, limit: int) -> None:
        if self._transport is None or self._transport.is_closing():
            raise NotSent("the connection is closed")
        self._limit = limit
        self._reader.begin()
        self._transport.write(request)

    async def _progress(self) -> None:
        """Wait for something to go on with: any part of a stream, otherwise the whole response."""
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        await self._waiter

    def _resume(self) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing() and not transport.is_reading():
            transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a socket's is one for both directions

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
        except ResponseInvalid as error:
            self._fail(error)
            return
        if not self._limit:
            if reader.size > AHEAD and self._transport is not None:
                self._transport.pause_reading()
            self._wake()
        elif reader.size > self._limit:
            self._fail(ResponseInvalid(f"the response has more than {self._limit} bytes"))
        elif reader.complete:
            self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._reader.end()
        if not self._reader.complete and self._error is None:
            self._error = ConnectionBroken(str(error or "the server closed the connection"))
        self._wake()

    def _fail(self, error: HttpFailed) -> None:
        self._error = error
        self._wake()
        self.abort()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None or waiter.done():
            return
        if self._error is not None:
            waiter.set_exception(self._error)
        else:
            waiter.set_result(None)


async def dial(address: Address, context: ssl.SSLContext | None, deadlines: Deadlines) -> Http1Connection:
    """Open a connection. Raises NotSent."""
    loop, name = asyncio.get_running_loop(), address.server_name if context is not None else None
    try:
        async with asyncio.timeout(CONNECT_S):
            _, connection = await loop.create_connection(
                partial(Http1Connection, context, deadlines),
                address.host,
                address.port,
                ssl=context,
                server_hostname=name,
            )
    except TimeoutError:
        raise NotSent(f"{address.host}:{address.port} accepts no connection within {CONNECT_S:g} s") from None
    except ConnectionRefusedError:
        raise Refused(f"{address.host}:{address.port} refuses connections: nobody listens there") from None
    except OSError as error:
        raise NotSent(" ".join(str(error).split()) or type(error).__name__) from None
    return connection
