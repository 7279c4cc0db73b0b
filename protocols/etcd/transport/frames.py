"""The store's private endpoint: the messages of the etcd API in frames over a unix socket, without HTTP/2.

For the plane's own processes beside the store: a call costs a fraction of what it costs over gRPC. A connection begins
with GREETING; then each side sends frames: size of the body, number of the call, kind, body. The first frame of a call
has its method as kind; the answer has OK and the message, or ERROR, the gRPC code's name, a zero byte and the text.
WATCH opens a stream: further frames of its number are further requests, and every answer is one of its messages. One
stream a connection; closing it ends the stream.
"""

import asyncio
import struct
from collections.abc import Iterator

GREETING = b"NPETCD1\n"
HEAD = struct.Struct(">IIB")
OK, ERROR = 0, 1
LARGEST_REQUEST = 16 * 1024 * 1024
NOT_CONNECTED = "does not let us connect"
"""Part of the error's text for a call that was not sent, for want of a connection."""
WATCH = "Watch/Watch"
METHODS = (
    "",
    "KV/Range",
    "KV/Put",
    "KV/DeleteRange",
    "KV/Txn",
    "KV/Compact",
    "Lease/LeaseGrant",
    "Lease/LeaseRevoke",
    "Lease/LeaseTimeToLive",
    "Lease/LeaseLeases",
    "Maintenance/Alarm",
    "Maintenance/Status",
    "Maintenance/Defragment",
    "Maintenance/Hash",
    "Maintenance/HashKV",
    "Cluster/MemberList",
    WATCH,
)
"""A method's number is its place; new ones are added at the end."""
NUMBERS = {method: number for number, method in enumerate(METHODS)}

Frame = tuple[int, int, bytes]
"""Number of the call, kind, body."""


class BadFrame(ValueError):
    """Raised when a frame is larger than its reader is willing to hold, or a connection does not begin as it must."""


def pack(call: int, kind: int, body: bytes) -> bytes:
    """Return a frame with its header; `kind` is the number of a method, OK or ERROR."""
    return HEAD.pack(len(body), call, kind) + body


class Splitter:
    """Bytes as they come, frames as they were sent. Holds at most one unfinished frame."""

    def __init__(self, largest: int, greeting: bytes = b"") -> None:
        self._largest, self._greeting = largest, greeting
        self._buffer = bytearray()
        self._needed = max(len(greeting), HEAD.size)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Raises BadFrame."""
        self._buffer += data
        if self._greeting:
            self._greet()
        at = 0
        while len(self._buffer) - at >= self._needed:
            size, call, kind = HEAD.unpack_from(self._buffer, at)
            if size > self._largest:
                raise BadFrame(f"a frame of {size} bytes; the limit is {self._largest}")
            end = at + HEAD.size + size
            if len(self._buffer) < end:
                self._needed = HEAD.size + size
                break
            self._needed = HEAD.size
            yield call, kind, bytes(memoryview(self._buffer)[at + HEAD.size : end])
            at = end
        del self._buffer[:at]

    def _greet(self) -> None:
        given = bytes(self._buffer[: len(self._greeting)])
        if not self._greeting.startswith(given):
            raise BadFrame("the connection does not begin with the greeting of this protocol")
        if given == self._greeting:
            del self._buffer[: len(given)]
            self._greeting, self._needed = b"", HEAD.size


GATHERED = 16 * 1024
"""Bytes of frames that are written before the end of the turn, so that the transport can limit them."""


class FrameWriter:
    """Writes frames to a connection. Those of one turn of the loop share a write, since each one wakes the reader."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport, self._loop = transport, asyncio.get_running_loop()
        self._frames: list[bytes] = []
        self._size = 0

    def write(self, frame: bytes) -> None:
        if not self._frames:
            self._loop.call_soon(self._flush)
        self._frames.append(frame)
        self._size += len(frame)
        if self._size > GATHERED:
            self._flush()

    def close(self) -> None:
        """Close the connection after what was written."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        frames, self._frames, self._size = self._frames, [], 0
        if frames and not self._transport.is_closing():
            self._transport.write(b"".join(frames))
