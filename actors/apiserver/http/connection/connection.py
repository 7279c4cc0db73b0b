"""Connections of the HTTP server: aiohttp's, with short responses written in one piece."""

import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage, StreamWriter
from aiohttp.streams import StreamReader
from multidict import CIMultiDict

from actors.apiserver.http.connection.messages import Reply, Response
from actors.apiserver.http.connection.whole import whole
from protocols.process.tls import is_trusted
from protocols.serving import BoundedConnection, BoundedServer

KNOWN_S = 75.0
"""How long a connection of a client that has proven who it is may be idle."""
QUERY_PARAMETERS = 1_000
"""Parameters of a query: taking hundreds of thousands apart, which a stranger may ask for, would hold the loop."""


Answering = Callable[[web.BaseRequest], Awaitable[Response]]


class Connections(BoundedServer):
    """Make a connection for each client. Only its loss cancels the task of a request, so a handler may live in it."""

    def __init__(self, handler: Answering, *, authenticated_timeout: float = KNOWN_S, **options: Any) -> None:
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
            message = message._replace(should_close=True)  # a refusal is the last answer
        return super().make_request(message, payload, protocol, _Writer(protocol, task.get_loop()), task)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.rel_url.raw_query_string.count("&") >= QUERY_PARAMETERS:
            reason = f"the query of the request has more than {QUERY_PARAMETERS} parameters"
            refusal = web.Response(status=400, text=reason)
            refusal.force_close()
            return refusal
        response = await self._respond(request)
        return WholeResponse(request, response) if isinstance(response, Reply) else response

    def distrust(self, abort: bool) -> None:
        """Close idle connections that replaced client CAs vouched for; with `abort`, break off their requests, too."""
        for connection in self.connections:
            transport = connection.transport
            if transport is None or is_trusted(transport, time.time()):
                continue
            if not cast(BoundedConnection, connection).busy:
                connection.force_close()
            elif abort:
                transport.abort()


class WholeResponse(web.StreamResponse):
    """A short response, written in one piece: aiohttp's way leads through four coroutines."""

    def __init__(self, request: web.BaseRequest, reply: Reply) -> None:
        super().__init__(status=reply.status)
        self._whole, self._reply = request, reply

    @property
    def keep_alive(self) -> bool | None:
        return self._whole.keep_alive

    async def prepare(self, request: web.BaseRequest) -> None:
        transport, reply = request.transport, self._reply
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        transport.write(whole(request, reply.status, reply.lines(), reply.body))

    async def write_eof(self, data: bytes = b"") -> None:
        if self._whole.protocol.writing_paused:
            await self._whole.writer.drain()


class _Writer(StreamWriter):
    """Writes the responses that do not write themselves, without the name of the server's software."""

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        headers.pop(hdrs.SERVER, None)
        await super().write_headers(status_line, headers)
