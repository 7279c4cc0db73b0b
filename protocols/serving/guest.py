"""An HTTP connection that is a guest until its client has proven who it is, by certificate or by a token.

A guest has GUEST_S from the TCP accept on, handshake and headers included, for each request's headers, which may take
HEAD_BYTES. Its bounds are those of the lobby; see `Lobby`.
"""

import asyncio
import json
from typing import Any, Protocol, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import RequestHandler, _ErrInfo

GUEST_S = 10.0
"""Also how long a guest's connection may be idle between two requests."""
PARTING_S = 1.0
"""How long a guest may take to read its last answer."""
HEAD_BYTES = 64 * 1024
"""Request line and headers of a guest."""


class Visit(Protocol):
    """A guest's place in the lobby."""

    began: float
    """Loop time of the accept."""
    full: str
    """Why the connection is refused; empty when it is not."""

    def leave(self) -> None: ...


class GuestServer(web.Server):
    """Makes guests. `known_timeout`: seconds that a proven connection may be idle."""

    def __init__(self, handler: Any, *, known_timeout: float, **options: Any) -> None:
        super().__init__(handler, keepalive_timeout=GUEST_S, **options)
        self.known_timeout = known_timeout

    def __call__(self) -> "Guest":
        return Guest(self, loop=self._loop, **self._kwargs)


class Guest(RequestHandler):
    __slots__ = ("_body", "_head_bytes", "visit")

    def __init__(self, manager: web.Server, **options: Any) -> None:
        super().__init__(manager, **options)
        self.visit: Visit | None = None
        """None once proven, and for connections that no listener bounds."""
        self._head_bytes = 0
        """Received since the last whole headers and their body."""
        self._body: StreamReader | None = None
        """Of the newest request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        visit = self.visit
        if visit is not None:
            self._keepalive_timeout = max(0.1, visit.began + GUEST_S - self._loop.time())
        super().connection_made(transport)
        self._keepalive_timeout = GUEST_S
        if visit is None or (transport.get_extra_info("peercert") and not visit.full):
            self.prove()

    def prove(self) -> None:
        """The client has proven who it is: it is no guest any more."""
        manager = self._manager
        self._keepalive_timeout = manager.known_timeout if isinstance(manager, GuestServer) else GUEST_S
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        self._body = None
        self._leave()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.visit is None:
            super().data_received(data)
        elif self.visit.full:  # told once there is a request, lest unread bytes reset the connection first
            self.refuse(503, self.visit.full)
        else:
            self._receive(data)

    def _receive(self, data: bytes) -> None:
        """Count what belongs to no body. With the data that ends the headers, their own size counts."""
        before, known = self._head_bytes + len(data), len(self._messages)
        of_body = self._upgraded or (self._body is not None and not self._body.is_eof())
        super().data_received(data)
        fresh = list(self._messages)[known:]
        if fresh:
            self._head_bytes, self._body = 0, fresh[-1][1]
            if not of_body and before > HEAD_BYTES and any(_size(message) > HEAD_BYTES for message, _ in fresh):
                self._too_large()
                self._messages.clear()
                self._messages.append((_NEVER_SERVED, EMPTY_PAYLOAD))  # who waits for a message has been woken
        elif of_body:
            self._head_bytes = 0
        else:
            self._head_bytes = before
            if before > HEAD_BYTES:
                self._too_large()

    def _too_large(self) -> None:
        told = f"request line and headers take more than {HEAD_BYTES} bytes"
        self.refuse(431, f"{told}; shorten them, or authenticate with a client certificate")

    def refuse(self, code: int, message: str) -> None:
        """Answer whatever the client asks, and close. Nothing is answered before the TLS handshake."""
        if self.transport is not None:
            self.transport.write(answer(code, message))
        self.force_close()
        self._leave()

    def force_close(self) -> None:
        """TLS would wait half a minute for a goodbye that an attacker never says."""
        transport = self.transport
        super().force_close()
        if self.visit is not None and transport is not None:
            self._loop.call_later(PARTING_S, transport.abort)

    def _leave(self) -> None:
        visit, self.visit = self.visit, None
        if visit is not None:
            visit.leave()


def prove(request: web.BaseRequest) -> None:
    """The request's client has proven who it is."""
    protocol = cast(Any, request.protocol)
    if isinstance(protocol, Guest) and protocol.visit is not None:
        protocol.prove()


_NEVER_SERVED = _ErrInfo(status=431, exc=HttpProcessingError(code=431), message="")

REASONS = {431: "Request Header Fields Too Large", 429: "Too Many Requests", 503: "Service Unavailable"}
NAMES = {431: "RequestHeaderFieldsTooLarge", 429: "TooManyRequests", 503: "ServiceUnavailable"}


def answer(code: int, message: str) -> bytes:
    """A whole answer: a Status of the API conventions."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    body = json.dumps({**status, "reason": NAMES[code], "code": code}).encode() + b"\n"
    head = f"HTTP/1.1 {code} {REASONS[code]}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    again = "" if code == 431 else "Retry-After: 1\r\n"
    return f"{head}{again}Connection: close\r\n\r\n".encode() + body


def _size(message: Any) -> int:
    """Bytes of a request's line and headers, separators left out."""
    headers = getattr(message, "raw_headers", ())
    return len(getattr(message, "path", "")) + sum(len(name) + len(value) for name, value in headers)
