"""Common part of both ends of an HTTP/2 connection: frames, header blocks, windows, settings, pings. Pure.

Bytes in, bytes and callbacks out. Invariants: no more goes out than the other side's windows take; our own windows are
large and only kept open, since the owner bounds what it holds by how much it reads from the socket.
"""

from typing import ClassVar

from protocols.http2 import frames as h2
from protocols.http2.frames import (
    LARGEST_WINDOW,
    BadHttp2,
    Splitter,
    number_of,
    pack,
    pack_settings,
    read_settings,
    unpadded,
)
from protocols.http2.hpack import TABLE_SIZE, Decoder, Encoder, Header
from protocols.http2.stream import Http2Stream

WINDOW = 1 << 30
FIRST_WINDOW = 65_535
HEADERS_LIMIT = 64 * 1024
SETTINGS_AT_ONCE = 8
"""SETTINGS frames in one read: each may visit all streams. Peers that adapt their windows send one a round trip."""


class Session:
    """One end of a connection. The streams it holds are those that neither side has closed."""

    def __init__(self, settings: dict[int, int]) -> None:
        self._splitter, self._decoder, self._encoder = Splitter(), Decoder(), Encoder()
        self._out = [
            pack_settings(settings | {h2.INITIAL_WINDOW_SIZE: WINDOW}),
            pack(h2.WINDOW_UPDATE, 0, 0, (WINDOW - FIRST_WINDOW).to_bytes(4)),
        ]
        self._streams: dict[int, Http2Stream] = {}
        self._window, self._first_window, self._frame = FIRST_WINDOW, FIRST_WINDOW, h2.LARGEST_FRAME
        self._blocked: dict[int, Http2Stream] = {}
        """Streams that wait for the connection's window alone."""
        self._taken = 0
        self._block: tuple[int, int, bytearray] | None = None
        """Headers that continue in the next frame: stream, flags, bytes so far."""
        self.set_up = False
        """True after the other side's settings."""
        self._settings_read = 0
        """SETTINGS frames among the bytes that are fed now."""
        self._answers: list[bytes] = []
        """Answers to pings, sent when the owner of the socket takes them."""
        self.draining = False
        """True when new calls need another connection."""

    @property
    def pressing(self) -> bool:
        """True when there is anything to write but answers to pings."""
        return bool(self._out)

    @property
    def waiting(self) -> bool:
        """True while a ping is not answered."""
        return bool(self._answers)

    def take(self, answers: bool = True) -> bytes:
        """Return the bytes to write, answers to pings only on request."""
        if answers and self._answers:
            self._out[:0], self._answers = self._answers, []
        out, self._out = b"".join(self._out), []
        return out

    def feed(self, data: bytes) -> None:
        """Handle received bytes. Raises BadHttp2."""
        self._settings_read = 0
        for kind, flags, stream, payload in self._splitter.feed(data):
            if (self._block is None) is (kind == h2.CONTINUATION):
                raise BadHttp2("headers are interrupted, or continue where none began")
            if not self.set_up and kind != h2.SETTINGS:
                raise BadHttp2("the other side does not begin with its settings")
            act = self._ACTS.get(kind)
            if act is not None:
                act(self, flags, stream, payload)

    # what an end does with its streams

    def _on_header_list(self, id: int, headers: list[Header], last: bool) -> None:
        raise NotImplementedError

    def _on_stream_data(self, stream: Http2Stream, data: bytes, last: bool) -> None:
        raise NotImplementedError

    def _on_stream_reset(self, stream: Http2Stream, code: int) -> None:
        raise NotImplementedError

    def _on_new_settings(self) -> None:
        """Note the other side's settings."""

    def _on_last_stream(self, last: int) -> None:
        """Note the last stream that the other side will answer."""

    # sending

    def _pump(self, stream: Http2Stream) -> None:
        """Send what the windows take; the rest waits for them."""
        pending = stream.pending
        while stream.sent < len(pending):
            size = min(len(pending) - stream.sent, stream.window, self._window, self._frame)
            if size <= 0:
                if stream.window > 0:
                    self._blocked[stream.id] = stream
                return
            part = pending[stream.sent : stream.sent + size]
            stream.sent += size
            stream.window -= size
            self._window -= size
            done = stream.last and stream.sent == len(pending)
            self._out.append(pack(h2.DATA, h2.END_STREAM if done else 0, stream.id, part))
        stream.pending, stream.sent = b"", 0
        if stream.closing:
            self._close(stream)

    def _unblock(self) -> None:
        """Send for the connection's window, in the order in which streams began to wait."""
        while self._blocked and self._window > 0:
            self._pump(self._blocked.pop(next(iter(self._blocked))))

    def _close(self, stream: Http2Stream) -> None:
        """Send the trailers: all messages have left."""

    def _drop(self, stream: Http2Stream) -> None:
        self._streams.pop(stream.id, None)
        self._blocked.pop(stream.id, None)

    def _reset(self, stream: int, code: int) -> None:
        self._out.append(pack(h2.RST_STREAM, 0, stream, code.to_bytes(4)))

    # receiving

    def _on_data(self, flags: int, id: int, payload: bytes) -> None:
        self._taken += len(payload)
        if self._taken >= WINDOW // 2:
            self._out.append(pack(h2.WINDOW_UPDATE, 0, 0, self._taken.to_bytes(4)))
            self._taken = 0
        stream = self._streams.get(id)
        if stream is None:
            return
        stream.taken += len(payload)
        if stream.taken >= WINDOW // 2:
            self._out.append(pack(h2.WINDOW_UPDATE, 0, id, stream.taken.to_bytes(4)))
            stream.taken = 0
        data = unpadded(flags & ~h2.PRIORITIZED, payload) if flags & h2.PADDED else payload
        self._on_stream_data(stream, data, bool(flags & h2.END_STREAM))

    def _on_headers(self, flags: int, id: int, payload: bytes) -> None:
        if flags & (h2.PADDED | h2.PRIORITIZED):
            payload = unpadded(flags, payload)
        if flags & h2.END_HEADERS:
            self._on_block(flags, id, payload)
        else:
            self._block = (id, flags, bytearray(payload))

    def _on_continuation(self, flags: int, id: int, payload: bytes) -> None:
        began, first, block = self._block or (0, 0, bytearray())
        if began != id:
            raise BadHttp2("headers of one stream are interrupted by another's")
        block += payload
        if len(block) > HEADERS_LIMIT:
            raise BadHttp2("headers are too long")
        if flags & h2.END_HEADERS:
            self._block = None
            self._on_block(first, id, bytes(block))

    def _on_block(self, flags: int, id: int, block: bytes) -> None:
        """Decode headers even of cancelled calls: all streams share the header table."""
        self._on_header_list(id, self._decoder.decode(block), bool(flags & h2.END_STREAM))

    def _on_reset(self, flags: int, id: int, payload: bytes) -> None:
        stream = self._streams.get(id)
        if stream is not None:
            self._on_stream_reset(stream, number_of(payload))

    def _on_settings(self, flags: int, id: int, payload: bytes) -> None:
        if flags & h2.ACK:
            return
        self._settings_read += 1
        if self._settings_read > SETTINGS_AT_ONCE:
            raise BadHttp2("the other side changes its settings without end")
        for name, value in read_settings(payload).items():
            self._set(name, value)
        self.set_up = True
        self._out.append(pack(h2.SETTINGS, h2.ACK, 0))
        self._on_new_settings()

    def _set(self, name: int, value: int) -> None:
        if name == h2.HEADER_TABLE_SIZE and value < TABLE_SIZE:
            self._encoder.forget()
        elif name == h2.INITIAL_WINDOW_SIZE:
            more, self._first_window = value - self._first_window, value
            for stream in list(self._streams.values()):
                stream.window += more
                self._pump(stream)
        elif name == h2.MAX_FRAME_SIZE:
            self._frame = value

    def _on_ping(self, flags: int, id: int, payload: bytes) -> None:
        if not flags & h2.ACK:
            self._answers.append(pack(h2.PING, h2.ACK, 0, payload))

    def _on_goaway(self, flags: int, id: int, payload: bytes) -> None:
        self.draining = True
        self._on_last_stream(number_of(payload[:4]))

    def _on_window(self, flags: int, id: int, payload: bytes) -> None:
        more = number_of(payload)
        if not id:
            self._window += more
            self._unblock()
        elif (stream := self._streams.get(id)) is not None:
            stream.window += more
            self._pump(stream)
        if self._window > LARGEST_WINDOW:
            raise BadHttp2("the window became too large")

    def _on_push(self, flags: int, id: int, payload: bytes) -> None:
        raise BadHttp2("the other side pushes, which is not enabled")

    _ACTS: ClassVar = {
        h2.DATA: _on_data,
        h2.HEADERS: _on_headers,
        h2.CONTINUATION: _on_continuation,
        h2.RST_STREAM: _on_reset,
        h2.SETTINGS: _on_settings,
        h2.PING: _on_ping,
        h2.GOAWAY: _on_goaway,
        h2.WINDOW_UPDATE: _on_window,
        h2.PUSH_PROMISE: _on_push,
    }
    """Ignore frames of unknown kinds."""
