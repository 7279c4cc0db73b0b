"""An HTTP connection with tight bounds until its client has authenticated, by certificate or by a token.

An unauthenticated client has UNAUTHENTICATED_S for the headers of each request, from the TCP accept on for the first,
TLS handshake included, and they may take HEAD_BYTES. `UnauthenticatedConnections` bounds their number.

A client of whatever rights that reads nothing for UNREAD_S loses its connection, and its log or command ends.
"""

import asyncio
import json
import logging
from typing import Any, Protocol, cast

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.streams import StreamReader

from protocols.serving.progress import Progress

log = logging.getLogger(__name__)
UNAUTHENTICATED_S = 10.0
"""Also how long an unauthenticated connection may be idle between two requests."""
LINGER_S = 1.0
"""Seconds an unauthenticated client has to read its last response."""
HEAD_BYTES = 64 * 1024
"""Request line and headers of an unauthenticated client."""

UNREAD_S, UNREAD_CHECK_S = 600.0, 30.0
"""Long enough for somebody who reads a log with a pager; and the interval at which it is checked."""


class Slot(Protocol):
    """One entry of UnauthenticatedConnections."""

    began: float
    """Loop time of the accept."""
    full: str
    """Reason for rejecting the connection; empty for none."""

    def leave(self) -> None: ...


class BoundedServer(web.Server):
    """Make bounded connections. `authenticated_timeout`: seconds that an authenticated connection may be idle."""

    def __init__(self, handler: Any, *, authenticated_timeout: float, **options: Any) -> None:
        super().__init__(self._answer, request_factory=self.make_request, **options)
        self._handler = handler
        self._options = {**options, "keepalive_timeout": authenticated_timeout}
        self._options.pop("handler_cancellation", None)
        self._unread: dict[Any, Progress] = {}
        """Connections with something that their clients have to read."""
        self._checks: asyncio.TimerHandle | None = None

    def __call__(self) -> "BoundedConnection":
        if self._checks is None:
            self._checks = asyncio.get_running_loop().call_later(UNREAD_CHECK_S, self._end_unread)
        return BoundedConnection(self, loop=asyncio.get_running_loop(), **self._options)

    def make_request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: "asyncio.Task[None]",
    ) -> web.BaseRequest:
        cast(BoundedConnection, protocol).busy = True
        return web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request of a connection that has not been refused."""
        response: web.StreamResponse = await self._handler(request)
        return response

    def _end_unread(self) -> None:
        """Abort the connections of clients that read nothing. Runs as long as there are connections."""
        loop, before, self._unread = asyncio.get_running_loop(), self._unread, {}
        for connection in self.connections:
            transport = connection.transport
            if transport is None or not (cast(BoundedConnection, connection).busy or transport.get_write_buffer_size()):
                continue
            progress = before.get(connection) or Progress(transport, loop.time())
            if progress.stalled_s(loop.time()) >= UNREAD_S:
                log.info("connection aborted: its client reads nothing seconds=%d", UNREAD_S)
                transport.abort()
            else:
                self._unread[connection] = progress
        self._checks = loop.call_later(UNREAD_CHECK_S, self._end_unread) if self.connections else None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if cast(BoundedConnection, request.protocol).refused:
            return web.StreamResponse()  # the connection is closed: nothing of this is written
        return await self.answer(request)


UNUSED_FIELDS = ("issuer", "notBefore", "serialNumber", "subjectAltName", "version")
"""Fields of a client's certificate that nobody reads: 0.8 kB for each open connection."""


class BoundedConnection(web.RequestHandler):
    """aiohttp's connection with deadlines for clients that have not authenticated."""

    __slots__ = ("_body", "_expiry", "_head_bytes", "busy", "refused", "slot")

    def __init__(self, manager: web.Server, **options: Any) -> None:
        super().__init__(manager, **options)
        self.slot: Slot | None = None
        """None once authenticated, and for connections that no listener bounds."""
        self.busy = False
        """A request is under way."""
        self.refused = False
        self._expiry: asyncio.TimerHandle | None = None
        """Ends the wait for an unauthenticated client's next headers."""
        self._head_bytes = 0
        """Received since the last whole headers and their body."""
        self._body: StreamReader | None = None
        """Body of the newest request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        for field in UNUSED_FIELDS if certificate else ():
            certificate.pop(field, None)
        slot = self.slot
        if slot is None or (certificate and not slot.full):
            self.mark_authenticated()
        else:
            self._expire_in(slot.began + UNAUTHENTICATED_S - asyncio.get_running_loop().time())

    def mark_authenticated(self) -> None:
        """Lift the bounds of unauthenticated clients."""
        self._body = None
        self._leave()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._leave()
        super().connection_lost(exc)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self.busy = False
            if self.slot is not None:
                self._expire_in(UNAUTHENTICATED_S)

    def _expire_in(self, seconds: float) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = asyncio.get_running_loop().call_later(max(0.1, seconds), self._expire)

    def _expire(self) -> None:
        """A request under way has no bound here; its end starts the next wait."""
        self._expiry = None
        if not self.busy:
            self.force_close()

    def data_received(self, data: bytes) -> None:
        if self.slot is None:
            super().data_received(data)
        elif self.slot.full:  # answer only a request: unread bytes would reset the connection before the answer
            self.refuse(503, self.slot.full)
        else:
            self._receive(data)

    def _receive(self, data: bytes) -> None:
        """Count what belongs to no body. With the data that ends the headers, their own size counts.

        Only aiohttp's parser knows where headers end, and only its private queue of messages shows it.
        """
        before, known = self._head_bytes + len(data), len(self._messages)
        of_body = self._upgraded or (self._body is not None and not self._body.is_eof())
        super().data_received(data)
        fresh = list(self._messages)[known:]
        if fresh:
            self._head_bytes, self._body, self.busy = 0, fresh[-1][1], True
            if not of_body and before > HEAD_BYTES and any(_size(message) > HEAD_BYTES for message, _ in fresh):
                self._too_large()
        elif of_body:
            self._head_bytes = 0
        else:
            self._head_bytes = before
            if before > HEAD_BYTES:
                self._too_large()

    def _too_large(self) -> None:
        reason = f"request line and headers take more than {HEAD_BYTES} bytes"
        self.refuse(431, f"{reason}; shorten them, or authenticate with a client certificate")

    def refuse(self, code: int, message: str) -> None:
        """Answer whatever the client asks, and close. Nothing is answered before the TLS handshake."""
        if self.transport is not None:
            self.transport.write(answer(code, message))
        self.refused = True
        self.force_close()
        self._leave()

    def force_close(self) -> None:
        """Abort soon: TLS would wait half a minute for a close_notify that an attacker never sends."""
        transport = self.transport
        super().force_close()
        if self.slot is not None and transport is not None:
            asyncio.get_running_loop().call_later(LINGER_S, transport.abort)

    def _leave(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        slot, self.slot = self.slot, None
        if slot is not None:
            slot.leave()


class Detached(web.StreamResponse):
    """The response of a request whose connection has left HTTP: the server writes nothing more, and closes it."""

    def __init__(self) -> None:
        super().__init__()
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


def mark_authenticated(request: web.BaseRequest) -> None:
    """Lift the bounds of the connection of an authenticated request."""
    protocol = cast(Any, request.protocol)
    if isinstance(protocol, BoundedConnection) and protocol.slot is not None:
        protocol.mark_authenticated()


REASONS = {431: "Request Header Fields Too Large", 429: "Too Many Requests", 503: "Service Unavailable"}
NAMES = {431: "RequestHeaderFieldsTooLarge", 429: "TooManyRequests", 503: "ServiceUnavailable"}


def answer(code: int, message: str) -> bytes:
    """Return a whole HTTP response with a Status of the API conventions."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    body = json.dumps({**status, "reason": NAMES[code], "code": code}).encode() + b"\n"
    head = f"HTTP/1.1 {code} {REASONS[code]}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    again = "" if code == 431 else "Retry-After: 1\r\n"
    return f"{head}{again}Connection: close\r\n\r\n".encode() + body


def _size(message: Any) -> int:
    """Bytes of a request's line and headers, separators left out."""
    headers = getattr(message, "raw_headers", ())
    return len(getattr(message, "path", "")) + sum(len(name) + len(value) for name, value in headers)
