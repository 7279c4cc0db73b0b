"""Hold back a client's requests while too many of its earlier ones are unanswered.

gRPC answers the calls of all connections in the order in which they came, so a client that sends thousands at once is
ahead of everybody who calls after it. Bytes of a client are therefore passed on only up to the request that fills its
share, and further when one of them is answered.

Only requests that are complete (END_STREAM) and have no response headers yet are counted. The server can answer them
without another byte of the client, and headers are not subject to flow control: bytes that are held back never keep an
answer from coming. A watch is answered when its headers come, so those that are open do not count.

Pure: frames (RFC 9113, section 4.1) are cut, payloads are not looked at.
"""

import struct
from collections.abc import Callable, Iterator

from protocols.http2.frames import CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM

UNANSWERED = 64
"""Requests of a client that wait for an answer at the server, on all of its connections; each may have one more."""
_HEAD = struct.Struct(">HBBBI")


class FrameEnds:
    """Where the frames of a connection end, whatever the pieces are in which its bytes come."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        """Bytes of the payload that are still to come."""
        self._kind = self._flags = self._stream = 0

    def ends(self, data: bytes) -> Iterator[tuple[int, int, int, int]]:
        """Yield offset of the end, kind, flags and stream of each frame that ends in these bytes.

        Stop at any of them and give what is behind its offset to the next call.
        """
        at, size, head = 0, len(data), self._head
        while at < size:
            if self._left:
                high = low = 0
            elif not head and size - at >= _HEAD.size:
                high, low, self._kind, self._flags, self._stream = _HEAD.unpack_from(data, at)
                at += _HEAD.size
            else:
                missing = _HEAD.size - len(head)
                self._head = head = head + data[at : at + missing]
                at += missing
                if len(head) < _HEAD.size:
                    return
                high, low, self._kind, self._flags, self._stream = _HEAD.unpack(head)
                self._head = head = b""
            self._left += high << 8 | low
            passed = min(self._left, size - at)
            at += passed
            self._left -= passed
            if not self._left:
                yield at, self._kind, self._flags, self._stream & 0x7FFFFFFF


class ClientShare:
    """The unanswered requests of one client, on all of its connections."""

    def __init__(self, limit: int = UNANSWERED) -> None:
        self.limit, self.unanswered = limit, 0
        self.held: dict[RequestGate, None] = {}
        """Connections with bytes that are held back, the one that waits longest first."""

    def wake(self) -> None:
        """Let the connections that are held back go on, as far as there is room."""
        while self.held and self.unanswered < self.limit:
            next(iter(self.held)).release()


class RequestGate:
    """The requests of one connection on their way to the server."""

    def __init__(self, share: ClientShare, pass_on: Callable[[bytes], object], on_open: Callable[[], None]) -> None:
        """`pass_on` takes bytes for the server; `on_open` is called when nothing is held back any more."""
        self._share, self._pass_on, self._on_open = share, pass_on, on_open
        self._waiting: set[int] = set()
        """Streams whose request is complete and unanswered."""
        self._requests, self._answers = FrameEnds(), FrameEnds()
        self._ends_with_headers = False
        self._held = b""

    @property
    def holds(self) -> bool:
        """True while bytes are held back; the client must not be read from meanwhile, which bounds them."""
        return bool(self._held)

    def take(self, data: bytes) -> None:
        """Pass on bytes of the client up to the end of the request that fills its share; hold the others."""
        if self._held or self._is_full():
            self._hold(self._held + data)
            return
        for end, kind, flags, stream in self._requests.ends(data):
            if kind == RST_STREAM:
                self._answered(stream)
            elif self._completes(kind, flags):
                self._waiting.add(stream)
                self._share.unanswered += 1
                if self._is_full() and end < len(data):
                    self._pass_on(data[:end])
                    self._hold(data[end:])
                    return
        self._pass_on(data)

    def answer(self, data: bytes) -> None:
        """Note which requests the bytes of the server answer."""
        for _, kind, _, stream in self._answers.ends(data):
            if kind in (HEADERS, RST_STREAM):
                self._answered(stream)
        if self._held and not self._is_full():
            self.release()
        self._share.wake()

    def release(self) -> None:
        """Pass on what is held back, as far as there is room."""
        held, self._held = self._held, b""
        self._share.held.pop(self, None)
        self.take(held)
        if not self._held:
            self._on_open()

    def close(self) -> None:
        """Forget the requests of a connection that has ended."""
        self._share.unanswered -= len(self._waiting)
        self._waiting.clear()
        self._share.held.pop(self, None)
        self._share.wake()

    def _hold(self, data: bytes) -> None:
        self._held = data
        self._share.held[self] = None

    def _is_full(self) -> bool:
        return bool(self._waiting) and self._share.unanswered >= self._share.limit

    def _answered(self, stream: int) -> None:
        if stream in self._waiting:
            self._waiting.remove(stream)
            self._share.unanswered -= 1

    def _completes(self, kind: int, flags: int) -> bool:
        """Return True for the frame that ends a request: the last DATA, or HEADERS with what continues them."""
        if kind == HEADERS:
            self._ends_with_headers = bool(flags & END_STREAM)
        if kind == DATA:
            return bool(flags & END_STREAM)
        return kind in (HEADERS, CONTINUATION) and self._ends_with_headers and bool(flags & END_HEADERS)
