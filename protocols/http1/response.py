"""Read the responses of one HTTP/1.1 connection. Pure: bytes in; status, headers and body out.

httptools takes the messages apart. It bounds nothing: who feeds it bounds the body by `size`.
"""

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from protocols.errors import NodeplaneError

HEAD_LIMIT = 64 << 10
"""Bytes without one of a body among them: status line, headers, interim responses; sizes of chunks, trailers."""


class HttpFailed(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Base class: there is no response to a request."""


class ResponseInvalid(HttpFailed, http=502):
    """Raised when a server sends what is no response of HTTP/1.1, sends one unasked, or a larger one than allowed."""


class Response(msgspec.Struct, frozen=True):
    """A response with the body that was asked for."""

    status: int
    headers: dict[bytes, bytes]
    """By lower-case names; the last one of a name counts."""
    body: bytes


class ResponseReader:
    """The response to one request after another."""

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        self._head = 0
        self._body: list[bytes] = []
        self._unasked = False
        self.status = 0
        """0 until all headers are there."""
        self.headers: dict[bytes, bytes] = {}
        self.size = 0
        """Bytes of the body that nobody has taken."""
        self.complete = True
        self.keep_alive = False

    def begin(self) -> None:
        """Expect the response to a new request."""
        self.status = self.size = self._head = 0
        self.headers, self._body = {}, []
        self.complete = False

    def feed(self, data: bytes) -> None:
        """Raises ResponseInvalid; the connection is of no use then."""
        if self.complete:
            raise ResponseInvalid("the server sent a response that was not asked for")
        self._head += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            raise ResponseInvalid(f"the server's response is no HTTP/1.1: {error}") from None
        if self._unasked:
            raise ResponseInvalid("the server sent more than the response that was asked for")
        if self._head > HEAD_LIMIT:
            raise ResponseInvalid(f"the headers or trailers of the response have more than {HEAD_LIMIT} bytes")

    def end(self) -> None:
        """Note the end of the connection, which may be the end of a body."""
        if self.status and not (self.headers.keys() & {b"content-length", b"transfer-encoding"}):
            self.complete = True
        self.keep_alive = False

    def take(self) -> bytes:
        """Return what has arrived of the body, once."""
        body, self._body, self.size = self._body, [], 0
        return body[0] if len(body) == 1 else b"".join(body)

    # called by httptools

    def on_message_begin(self) -> None:
        self._unasked = self.complete
        self.headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:  # else a trailer
            self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:
            self.status = status

    def on_body(self, data: bytes) -> None:
        self._body.append(data)
        self.size += len(data)
        self._head = 0

    def on_message_complete(self) -> None:
        if self.status:  # else an interim response
            self.complete, self.keep_alive = True, self._parser.should_keep_alive()
