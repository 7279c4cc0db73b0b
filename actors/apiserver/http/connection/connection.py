"""Connections of the HTTP server. All code that depends on aiohttp's internals is here.

- A short response is encoded and written in one piece.
- A watch takes its connection over from the server and gives it back at its end.
"""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, cast

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import HttpVersion, HttpVersion10, HttpVersion11, RawRequestMessage, StreamWriter
from aiohttp.streams import StreamReader
from multidict import CIMultiDict

from actors.apiserver.api.encoding.negotiate import Headers, written
from actors.apiserver.api.errors import ServiceUnavailable
from actors.apiserver.http.connection.responses import AUDIT_ID, Reply, Response
from actors.apiserver.http.connection.unread import Unread
from protocols.process.tls import is_trusted
from protocols.serving.connection import BoundedConnection, BoundedServer, Detached

AUTHENTICATED_IDLE_S = 75.0
"""Longest idle time of a connection whose client has authenticated."""
QUERY_PARAMETERS = 1_000
"""Most parameters of a query: parsing hundreds of thousands, which needs no credential, would block the loop."""
REASONS = {status.value: status.phrase for status in HTTPStatus}

RequestHandler = Callable[[web.BaseRequest], Awaitable[Response]]


class Connections(BoundedServer):
    """Make a connection for each client. Only its loss cancels the task of a request, so a handler may live in it."""

    def __init__(
        self, handler: RequestHandler, *, authenticated_timeout: float = AUTHENTICATED_IDLE_S, **options: Any
    ) -> None:
        super().__init__(handler, authenticated_timeout=authenticated_timeout, **options)
        self._respond = handler

    def make_request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: Any,
    ) -> web.BaseRequest:
        if not is_trusted(protocol.transport, time.time()):
            message = message._replace(should_close=True)  # the 401 is the last response of this connection
        return super().make_request(message, payload, protocol, _Writer(protocol, task.get_loop()), task)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.rel_url.raw_query_string.count("&") >= QUERY_PARAMETERS:
            reason = f"the query of the request has more than {QUERY_PARAMETERS} parameters"
            rejection = web.Response(status=400, text=reason)
            rejection.force_close()
            return rejection
        response = await self._respond(request)
        return ShortResponse(request, response) if isinstance(response, Reply) else response

    def distrust(self, abort: bool) -> None:
        """Close idle connections of clients whose CA was replaced; with `abort`, also those with a request."""
        for connection in self.connections:
            transport = connection.transport
            if transport is None or is_trusted(transport, time.time()):
                continue
            if not cast(BoundedConnection, connection).busy:
                connection.force_close()
            elif abort:
                transport.abort()


class ShortResponse(web.StreamResponse):
    """A response written in one piece: aiohttp's own way leads through four coroutines.

    The server asks it for the members below and nothing else, so the headers and cookies that the base class would
    make for each response are left out.
    """

    __slots__ = ("_reply", "_request")

    def __init__(self, request: web.BaseRequest, reply: Reply) -> None:
        self._request, self._reply = request, reply

    @property
    def keep_alive(self) -> bool | None:
        return self._request.keep_alive

    async def prepare(self, request: web.BaseRequest) -> None:
        transport, reply = request.transport, self._reply
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        transport.write(encode_response(request, reply.status, reply.lines(), reply.body))

    async def write_eof(self, data: bytes = b"") -> None:
        if self._request.protocol.writing_paused and (transport := self._request.transport) is not None:
            with Unread(transport):
                await self._request.writer.drain()


class _Writer(StreamWriter):
    """Write responses without a Server header."""

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        headers.pop(hdrs.SERVER, None)
        await super().write_headers(status_line, headers)


def encode_response(request: web.BaseRequest, status: int, headers: Headers, body: bytes) -> bytes:
    """Return head and body. Raises ValueError for a header of several lines."""
    head = _encode_head(request.version, status, headers, request.keep_alive)
    date = rfc822_formatted_time().encode()
    sent = b"" if request.method == hdrs.METH_HEAD else body
    if audit_id := request.get(AUDIT_ID):
        head += b"Audit-Id: %b\r\n" % audit_id.encode()
    if status != HTTPStatus.NOT_MODIFIED:  # its length would be that of what it leaves out
        head += b"Content-Length: %d\r\n" % len(body)
    return b"%bDate: %b\r\n\r\n%b" % (head, date, sent)


@functools.lru_cache(maxsize=256)
def _encode_head(version: HttpVersion, status: int, headers: Headers, keep_alive: bool) -> bytes:
    """Return the part of the head that responses of the same kind share."""
    head = written(headers)
    if keep_alive and version == HttpVersion10:
        head += "Connection: keep-alive\r\n"
    elif not keep_alive and version == HttpVersion11:
        head += "Connection: close\r\n"
    return f"HTTP/{version.major}.{version.minor} {status} {REASONS.get(status, '')}\r\n{head}".encode()


class WatchStarted(Detached):
    """The response of a watch, whose connection was taken over. The watch notes its own end."""


def take_over(http: web.BaseRequest) -> asyncio.Transport:
    """Return the transport of the request's connection, which the server no longer uses.

    The caller must call `set_protocol` on it at once and respond with `WatchStarted`. Raises ServiceUnavailable if the
    client has left already.
    """
    protocol = http.protocol
    transport = protocol.transport
    if transport is None or transport.is_closing():
        raise ServiceUnavailable("the client is gone")
    protocol.transport = None
    # The server takes this for a lost connection, reported after its handler has returned, and frees its state.
    asyncio.get_running_loop().call_soon(protocol.connection_lost, None)
    return transport


def give_back(server: web.Server) -> Callable[[asyncio.Transport], None]:
    """Return a function that makes an open connection one of `server` again, waiting for its next request."""

    def reuse(transport: asyncio.Transport) -> None:
        protocol = server()
        transport.set_protocol(protocol)
        transport.set_write_buffer_limits()  # a watch sets its own
        protocol.connection_made(transport)

    return reuse
