"""One connection of the HTTP server: aiohttp's, whose requests run in the connection's own task.

aiohttp starts a task for each request, which is two more turns of the loop and a tenth of what a small write costs,
and it goes through four coroutines to write an answer that is known whole: that is done here, at once.
Parsing, limits, pipelining, keep-alive, bad requests, cancellation and shutdown are aiohttp's own.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import hdrs, web
from aiohttp.http import RawRequestMessage, StreamWriter
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import ERROR, _ErrInfo
from multidict import CIMultiDict

from actors.apiserver.http.connection.messages import Reply, Response
from actors.apiserver.http.connection.whole import whole
from protocols.process.tls import is_trusted
from protocols.serving import BoundedConnection, BoundedServer

Message = RawRequestMessage | _ErrInfo
KNOWN_S = 75.0
"""How long a connection of a client that has proven who it is may be idle."""
QUERY_PARAMETERS = 1_000
"""Parameters of a query: taking hundreds of thousands apart, which a stranger may ask for, would hold the loop."""


Answering = Callable[[web.BaseRequest], Awaitable[Response]]


class Connections(BoundedServer):
    """Makes one for each that is accepted."""

    def __init__(self, handler: Answering, *, authenticated_timeout: float = KNOWN_S, **options: Any) -> None:
        super().__init__(handler, authenticated_timeout=authenticated_timeout, **options)

    def __call__(self) -> "Connection":
        return Connection(self, loop=self._loop, **self._kwargs)

    def distrust(self, abort: bool) -> None:
        """The CAs of clients were replaced: close idle connections that earlier ones vouched for; with `abort`, break
        off their requests as well."""
        for connection in tuple(self.connections):
            if isinstance(connection, Connection):
                connection.distrust(abort)


class Connection(BoundedConnection):
    """Nothing but the connection's loss cancels its task, so a handler may live in it."""

    __slots__ = ("on_end",)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.on_end: Callable[[], None] | None = None
        """Called once, when the request under way is answered or given up."""

    def distrust(self, abort: bool) -> None:
        if self.transport is None or is_trusted(self.transport, time.time()):
            return
        if self._current_request is None and not self._messages:
            self.force_close()
        elif abort:
            self.transport.abort()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Asked for with each body that was read, though hardly ever was anything paused."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    async def start(self) -> None:
        """One request after the other, until the connection is given up."""
        while not self._force_close:
            if not self._messages:
                await self._another()
            try:
                if not await self._serve(*self._taken()) or not self._goes_on():
                    break
            except asyncio.CancelledError:
                self.force_close()
                raise
            except Exception as error:
                self.log_exception("Unhandled exception", exc_info=error)
                self.force_close()
        if not self._force_close:
            self._task_handler = None
            if self.transport is not None:
                self.transport.close()

    async def _another(self) -> None:
        """Waits for a message."""
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _taken(self) -> tuple[Message, StreamReader]:
        found = self._messages.popleft()
        if self._parser is not None:
            self._parser.message_consumed()
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()
        message, payload = found
        return _bounded(message), payload

    async def _serve(self, message: Message, payload: StreamReader) -> bool:
        """Whether the client is still there."""
        handler: Any = self._request_handler
        if handler is None:
            return False
        if isinstance(message, _ErrInfo):
            handler, message = self._make_error_handler(message), ERROR
        request = self._begun(message, payload)
        try:
            try:
                response: Response = await handler(request)
            except Exception as error:
                response = self.handle_error(request, 500, error)
            there = await self._written(request, response)
            if self._paused:
                await self._drain_helper()
        except ConnectionError:
            return False
        finally:
            self._ended(request)
        if there and not payload.is_eof():
            await self._linger(payload)
        return there

    def _begun(self, message: RawRequestMessage, payload: StreamReader) -> web.BaseRequest:
        if self._manager is not None:
            self._manager.requests_count += 1
        if not is_trusted(self.transport, time.time()):
            message = message._replace(should_close=True)  # a refusal is the last answer
        task: Any = self._task_handler
        request = web.BaseRequest(message, payload, self, _Writer(self, self._loop), task, self._loop)
        self._current_request, self._request_in_progress = request, True
        return request

    def _ended(self, request: web.BaseRequest) -> None:
        nobody: Any = None
        request._task = nobody  # no circle is left when it raises
        self._current_request, self._request_in_progress = None, False
        if self.on_end is not None:
            on_end, self.on_end = self.on_end, None
            on_end()
        if self._handler_waiter is not None:
            self._handler_waiter.set_result(None)

    async def _written(self, request: web.BaseRequest, response: Response) -> bool:
        """Whether the client is still there."""
        if isinstance(response, Reply) and not self._upgraded:
            return self._sent(request, response)
        if isinstance(response, Reply):  # what came behind a request to upgrade is for aiohttp to find
            response = web.Response(body=response.body, status=response.status, headers=CIMultiDict(response.lines()))
        _, gone = await self.finish_response(request, response, None)
        self._keepalive = bool(response.keep_alive)
        return not gone

    def _sent(self, request: web.BaseRequest, reply: Reply) -> bool:
        transport = self.transport
        if transport is None or transport.is_closing():
            return False
        transport.write(whole(request, reply.status, reply.lines(), reply.body))
        self._keepalive = request.keep_alive
        return True

    async def _linger(self, payload: StreamReader) -> None:
        """A body that nobody read: what is under way is taken in for a while, lest the client never sees its answer."""
        try:
            async with asyncio.timeout(self._lingering_time):
                while not self._force_close and not payload.is_eof():
                    await payload.readany()
        except TimeoutError:
            self.close()

    def _goes_on(self) -> bool:
        """Whether another request may come, which it has to do in time."""
        if not self._keepalive or self._close or self._force_close:
            return False
        closes_at = self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(closes_at, self._process_keepalive)
        return True


def _bounded(message: Message) -> Message:
    """The message, or the refusal of one whose query has too many parameters."""
    if isinstance(message, _ErrInfo) or message.url.raw_query_string.count("&") < QUERY_PARAMETERS:
        return message
    told = f"the query of the request has more than {QUERY_PARAMETERS} parameters"
    return _ErrInfo(400, BadHttpMessage(told), told)


class _Writer(StreamWriter):
    """Of answers that aiohttp writes."""

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        headers.pop(hdrs.SERVER, None)  # nobody needs to know what we are made of
        await super().write_headers(status_line, headers)
