"""A server's end of one HTTP/2 connection that carries gRPC calls of one request each. Pure.

Bounds on what a client can hold here: CALLS calls, and REQUEST_BYTES of requests that are not complete. A call ends
exactly once: by `end`, by `on_cancel`, or with the connection.
"""

import re
from collections.abc import Callable
from urllib.parse import quote_from_bytes

import msgspec

from protocols.http2 import frames as h2
from protocols.http2.frames import BadHttp2, pack
from protocols.http2.hpack import Header
from protocols.http2.session import Session
from protocols.http2.stream import CODES, Http2Stream

CALLS = 4096
"""Calls under way at once on one connection; a node that stops all its pods waits for this many StopContainer."""
REQUEST_BYTES = 64 << 20
PATH_LIMIT = 1024
"""Bytes of a path and a deadline, all that is retained of a call's headers."""
TEXT_LIMIT = 2048
"""Bytes of an error's text; encoded it still fits into the 8 KiB of headers that clients accept."""
HEAD: tuple[Header, ...] = ((b":status", b"200"), (b"content-type", b"application/grpc"))
FINE: tuple[Header, ...] = ((b"grpc-status", b"0"),)
_NUMBERS = {name: number for number, name in enumerate(CODES)}
_TIMEOUT = re.compile(rb"(\d{1,8})([HMSmun])")
_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


class Request(msgspec.Struct, frozen=True):
    """One call, as the client sent it."""

    id: int
    path: str
    message: bytes
    timeout: float | None
    """Seconds; None without a deadline."""


class ServerSession(Session):
    """Calls of one client. `on_request` gets each complete request, `on_cancel` the id of a call nobody waits for."""

    def __init__(self, on_request: Callable[[Request], None], on_cancel: Callable[[int], None], largest: int) -> None:
        super().__init__({h2.MAX_CONCURRENT_STREAMS: CALLS})
        self._on_request, self._on_cancel, self._largest = on_request, on_cancel, largest
        self._preface = h2.PREFACE
        self._newest = 0
        self._requests: dict[int, list[bytes]] = {}
        """Messages of calls whose request is not complete; after that the call runs."""
        self._unread = 0

    def feed(self, data: bytes) -> None:
        """Handle received bytes. Raises BadHttp2."""
        if self._preface:
            size = min(len(self._preface), len(data))
            if data[:size] != self._preface[:size]:
                raise BadHttp2("the client does not begin with HTTP/2's preface")
            self._preface, data = self._preface[size:], data[size:]
        super().feed(data)

    def begin(self, id: int) -> None:
        """Send headers: the client learns that the call is accepted."""
        if (stream := self._streams.get(id)) is not None and stream.headers:
            self._head(stream, HEAD)

    def message(self, id: int, message: bytes) -> None:
        """Send a message, after headers if there were none."""
        if (stream := self._streams.get(id)) is not None:
            self.begin(id)
            stream.queue(message, last=False)
            self._pump(stream)

    def end(self, id: int, code: str, text: str = "") -> None:
        """End a call. `code` is a name of gRPC's codes."""
        if (stream := self._streams.get(id)) is None:
            return
        stream.closing = FINE if code == "OK" else _trailers(code, text)
        if not stream.pending:
            self._close(stream)

    def pending(self, id: int) -> int:
        """Return the bytes that wait for the client's window."""
        stream = self._streams.get(id)
        return len(stream.pending) - stream.sent if stream is not None else 0

    def go_away(self) -> None:
        """Accept no further calls."""
        self.draining = True
        self._out.append(pack(h2.GOAWAY, 0, 0, self._newest.to_bytes(4) + h2.NO_ERROR.to_bytes(4)))

    @property
    def busy(self) -> bool:
        return bool(self._streams)

    def _head(self, stream: Http2Stream, headers: tuple[Header, ...], last: bool = False) -> None:
        stream.headers = ()
        flags = h2.END_HEADERS | (h2.END_STREAM if last else 0)
        self._out.append(pack(h2.HEADERS, flags, stream.id, self._encoder.encode(headers)))

    def _close(self, stream: Http2Stream) -> None:
        """Send the trailers; without messages before them, they are the only headers."""
        self._head(stream, HEAD + stream.closing if stream.headers else stream.closing, last=True)
        if self._forget(stream) is not None:
            self._reset(stream.id, h2.NO_ERROR)  # the client may stop sending its request

    def _forget(self, stream: Http2Stream) -> list[bytes] | None:
        """Remove a call; return its messages if its request is not complete."""
        self._drop(stream)
        messages = self._requests.pop(stream.id, None)
        if messages is not None:
            self._unread -= stream.unread + sum(map(len, messages))
        return messages

    def _on_header_list(self, id: int, headers: list[Header], last: bool) -> None:
        stream = self._streams.get(id)
        if stream is not None:
            if id in self._requests and last:
                self._complete(stream)  # trailers
            return
        if id <= self._newest:
            return  # the rest of a call that has ended
        needed = tuple(header for header in headers if header[0] in (b":path", b"grpc-timeout"))
        if id % 2 == 0 or not needed or sum(len(value) for _, value in needed) > PATH_LIMIT:
            raise BadHttp2(f"stream {id} is no call")
        self._newest = id
        if self.draining or len(self._streams) >= CALLS:
            self._reset(id, h2.REFUSED_STREAM)
            return
        stream = self._streams[id] = Http2Stream(id, needed, self._largest)
        stream.id, stream.window = id, self._first_window
        self._requests[id] = []
        if last:
            self._complete(stream)

    def _on_stream_data(self, stream: Http2Stream, data: bytes, last: bool) -> None:
        messages = self._requests.get(stream.id)
        if messages is None:
            raise BadHttp2(f"stream {stream.id} was ended by the client")
        before = stream.unread
        try:
            fresh = list(stream.take(data))
        except ValueError as error:
            self._unread += stream.unread - before
            self.end(stream.id, "RESOURCE_EXHAUSTED", str(error))
            return
        messages += fresh
        self._unread += stream.unread - before + sum(map(len, fresh))
        if self._unread > REQUEST_BYTES:
            raise BadHttp2("requests that are not complete are too large together")
        if last:
            self._complete(stream)
        elif len(messages) > 1:  # empty ones without end would cost memory, but no bytes
            self._reject(stream, messages)

    def _complete(self, stream: Http2Stream) -> None:
        messages = self._requests.pop(stream.id)
        self._unread -= stream.unread + sum(map(len, messages))
        named = dict(stream.headers)
        if len(messages) != 1 or stream.unread:
            self._reject(stream, messages)
            return
        path = named.get(b":path", b"").decode(errors="replace")
        self._on_request(Request(stream.id, path, messages[0], timeout_of(named.get(b"grpc-timeout", b""))))

    def _reject(self, stream: Http2Stream, messages: list[bytes]) -> None:
        self.end(stream.id, "INTERNAL", f"{len(messages)} complete messages in a request, where one is expected")

    def _on_stream_reset(self, stream: Http2Stream, code: int) -> None:
        if self._forget(stream) is None:
            self._on_cancel(stream.id)


def timeout_of(text: bytes) -> float | None:
    """Return a grpc-timeout in seconds; None if there is none that is valid."""
    match = _TIMEOUT.fullmatch(text)
    return int(match[1]) * _UNITS[match[2]] if match else None


def _trailers(code: str, text: str) -> tuple[Header, ...]:
    quoted = quote_from_bytes(text.encode(errors="replace")[:TEXT_LIMIT], safe=_PRINTABLE)
    return (b"grpc-status", b"%d" % _NUMBERS[code]), (b"grpc-message", quoted.encode())
