"""One call on a connection: bytes to send, received messages, and its status. Pure."""

import struct
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from protocols.http2.frames import CANCEL, ENHANCE_YOUR_CALM, NO_ERROR, REFUSED_STREAM
from protocols.http2.hpack import Header

CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
"""Names of gRPC's codes, by number."""
RESETS = {
    NO_ERROR: "UNAVAILABLE",
    REFUSED_STREAM: "UNAVAILABLE",
    CANCEL: "CANCELLED",
    ENHANCE_YOUR_CALM: "RESOURCE_EXHAUSTED",
}
HTTP = {400: "INTERNAL", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "UNIMPLEMENTED"}
STATUS = frozenset({b":status", b"grpc-status", b"grpc-message"})
"""Headers that are read."""
DIGITS = 9
"""Digits of a status. int() raises for 4,301."""
_PREFIX = struct.Struct(">BI")

End = tuple[str, str]
"""Name of the code, and the text."""
FINE: End = ("OK", "")


class Http2Stream:
    """One call: what waits for the server's window, and the message that is not complete."""

    __slots__ = (
        "_buffer", "_largest", "_trailers", "closing", "headers", "id", "last", "number", "pending", "sent", "taken",
        "window",
    )  # fmt: skip

    def __init__(self, number: int, headers: tuple[Header, ...], largest: int) -> None:
        self.number = number
        """The caller's number."""
        self.id = 0
        """The stream's identifier; 0 until it is open."""
        self.headers = headers
        self.window = 0
        """Bytes that the server accepts now."""
        self.pending = b""
        self.sent = 0
        """Bytes of `pending` that have left."""
        self.last = False
        """True when `pending` ends the client's messages."""
        self.closing: tuple[Header, ...] = ()
        """A server's trailers, which follow the last message."""
        self.taken = 0
        """Bytes received that no WINDOW_UPDATE has returned to the server."""
        self._largest = largest
        self._buffer = bytearray()
        """An unfinished message."""
        self._trailers: dict[bytes, bytes] = {}

    def queue(self, message: bytes, last: bool) -> None:
        self.pending = self.pending[self.sent :] + _PREFIX.pack(0, len(message)) + message
        self.last, self.sent = last, 0

    @property
    def unread(self) -> int:
        """Bytes of the message that is not complete."""
        return len(self._buffer)

    def take(self, data: bytes) -> Iterator[bytes]:
        """Yield complete messages. Raises ValueError for one that is compressed or too large."""
        self._buffer += data
        while len(self._buffer) >= _PREFIX.size:
            packed, size = _PREFIX.unpack_from(self._buffer)
            if packed:
                raise ValueError("received a compressed message, which was not asked for")
            if size > self._largest:
                raise ValueError(f"received message larger than max ({size} vs. {self._largest})")
            end = _PREFIX.size + size
            if len(self._buffer) < end:
                return
            message = bytes(self._buffer[_PREFIX.size : end])
            del self._buffer[:end]
            yield message

    def add_headers(self, headers: list[Header]) -> None:
        """Note the status in headers, or in the trailers at the end. A server may send others without end."""
        self._trailers.update(header for header in headers if header[0] in STATUS)

    def end(self) -> End:
        """Return the status from the trailers; without one the server does not speak gRPC."""
        status = self._trailers.get(b"grpc-status", b"")
        if status == b"0":
            return FINE
        if status.isdigit() and len(status) <= DIGITS:
            code = int(status)
            text = unquote_to_bytes(self._trailers.get(b"grpc-message", b"")).decode(errors="replace")
            return (CODES[code] if code < len(CODES) else "UNKNOWN"), text
        status = self._trailers.get(b":status", b"")
        known = HTTP.get(int(status), "UNAVAILABLE") if status.isdigit() and len(status) <= DIGITS else "UNAVAILABLE"
        shown = status[:16].decode(errors="replace") or "none"
        return known, f"what answers does not speak gRPC (HTTP status {shown})"


def reset(code: int) -> End:
    """Return the status of a call that the server reset."""
    return RESETS.get(code, "INTERNAL"), f"the server reset the call (HTTP/2 error {code})"
