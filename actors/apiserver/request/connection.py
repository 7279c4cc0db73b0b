"""One connection of the HTTP server: aiohttp's, whose requests run in the connection's own task.

aiohttp starts a task for each request, which is two more turns of the loop and a tenth of what a small write costs.
Parsing, limits, pipelining, keep-alive, bad requests, cancellation and shutdown are aiohttp's own.
"""

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.http import RawRequestMessage, StreamWriter
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import ERROR, RequestHandler, _ErrInfo, _RequestHandler

Message = RawRequestMessage | _ErrInfo


class Connections(web.Server):
    """Makes one for each that is accepted."""

    def __call__(self) -> RequestHandler:
        return Connection(self, loop=self._loop, **self._kwargs)


class Connection(RequestHandler):
    """Nothing but the connection's loss cancels its task, so a handler may live in it."""

    __slots__ = ()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Asked for with each body that was read, though hardly ever was anything paused."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    async def start(self) -> None:
        """One request after the other, until the connection is given up."""
        while not self._force_close:
            message, payload = await self._next()
            try:
                if not await self._serve(message, payload) or not self._goes_on():
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

    async def _next(self) -> tuple[Message, StreamReader]:
        if not self._messages:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        found = self._messages.popleft()
        if self._parser is not None:
            self._parser.message_consumed()
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()
        return found

    async def _serve(self, message: Message, payload: StreamReader) -> bool:
        """Whether the client is still there."""
        manager, factory, handler = self._manager, self._request_factory, self._request_handler
        if manager is None or factory is None or handler is None:
            return False
        manager.requests_count += 1
        if isinstance(message, _ErrInfo):
            handler = self._make_error_handler(message)
            message = ERROR
        writer = StreamWriter(self, self._loop)
        task: Any = self._task_handler
        request = factory(message, payload, self, writer, task)
        try:
            gone = await self._answered(request, handler)
        finally:
            task = None
            request._task = task  # no circle is left when it raises
        if not gone and not payload.is_eof():
            await self._linger(payload)
        return not gone

    async def _answered(self, request: web.BaseRequest, handler: _RequestHandler) -> bool:
        """Whether the client was gone."""
        try:
            response, gone = await self._handle_request(request, None, handler)
        except ConnectionError:
            return True
        self._keepalive = bool(response.keep_alive)
        return gone

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
