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
"""Names of gRPC's codes; a code is its place."""
RESETS = {
    NO_ERROR: "UNAVAILABLE",
    REFUSED_STREAM: "UNAVAILABLE",
    CANCEL: "CANCELLED",
    ENHANCE_YOUR_CALM: "RESOURCE_EXHAUSTED",
}
HTTP = {400: "INTERNAL", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "UNIMPLEMENTED"}
_PREFIX = struct.Struct(">BI")

End = tuple[str, str]
"""Name of the code, and the text."""
FINE: End = ("OK", "")


class Stream:
    __slots__ = ("_buffer", "_largest", "_trailers", "headers", "id", "last", "number", "pending", "taken", "window")

    def __init__(self, number: int, headers: tuple[Header, ...], largest: int) -> None:
        self.number = number
        """As its caller knows it."""
        self.id = 0
        """As the connection knows it, once it is open."""
        self.headers = headers
        self.window = 0
        """Bytes the server takes of this stream."""
        self.pending = b""
        self.last = False
        """Nothing comes after what is pending."""
        self.taken = 0
        """Bytes received that no WINDOW_UPDATE has returned to the server."""
        self._largest = largest
        self._buffer = bytearray()
        """The beginning of a message whose end has not come."""
        self._trailers: dict[bytes, bytes] = {}

    def queue(self, message: bytes, last: bool) -> None:
        self.pending += _PREFIX.pack(0, len(message)) + message
        self.last = last

    def take(self, data: bytes) -> Iterator[bytes]:
        """Whole messages. Raises ValueError for one that cannot be read."""
        if not self._buffer and self._is_one(data):
            yield data[_PREFIX.size :]
            return
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

    def _is_one(self, data: bytes) -> bool:
        """Most messages come in one piece and alone."""
        if len(data) < _PREFIX.size:
            return False
        packed, size = _PREFIX.unpack_from(data)
        return not packed and size <= self._largest and len(data) == _PREFIX.size + size

    def hear(self, headers: list[Header]) -> None:
        """At the beginning, and at the end."""
        self._trailers.update(headers)

    def end(self) -> End:
        """Return the status from the trailers; without one the server does not speak gRPC."""
        status = self._trailers.get(b"grpc-status", b"")
        if status == b"0":
            return FINE
        if status.isdigit():
            code = int(status)
            text = unquote_to_bytes(self._trailers.get(b"grpc-message", b"")).decode(errors="replace")
            return (CODES[code] if code < len(CODES) else "UNKNOWN"), text
        status = self._trailers.get(b":status", b"")
        known = HTTP.get(int(status), "UNAVAILABLE") if status.isdigit() else "UNAVAILABLE"
        return known, f"what answers does not speak gRPC (HTTP status {status.decode(errors='replace') or 'none'})"


def reset(code: int) -> End:
    """The server gave the call up."""
    return RESETS.get(code, "INTERNAL"), f"the server reset the call (HTTP/2 error {code})"
