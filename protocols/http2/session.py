"""A client's end of one HTTP/2 connection that carries gRPC calls. Pure: bytes in, bytes and callbacks out.

Invariants: no more goes out than the server's windows take; what comes in is bounded by who reads the socket, so our
windows are large and only kept open. A stream ends exactly once, for its caller and for the connection.
"""

from collections import deque
from collections.abc import Callable
from typing import ClassVar

from protocols.http2 import frames as h2
from protocols.http2.frames import BadHttp2, Splitter, number_of, pack, pack_settings, read_settings, unpadded
from protocols.http2.hpack import TABLE_SIZE, Decoder, Encoder, Header
from protocols.http2.stream import End, Http2Stream, reset

WINDOW = 1 << 30
FIRST_WINDOW = 65_535
LARGEST_WINDOW = (1 << 31) - 1
LAST_STREAM = (1 << 31) - 1
HEADERS_LIMIT = 64 * 1024
OnMessage = Callable[[int, bytes], None]
OnEnd = Callable[[int, str, str], None]


class Http2Session:
    """Calls of one connection, each with a number chosen by its caller."""

    def __init__(self, on_message: OnMessage, on_end: OnEnd, largest: int) -> None:
        self._on_message, self._on_end, self._largest = on_message, on_end, largest
        self._splitter, self._decoder, self._encoder = Splitter(), Decoder(), Encoder()
        self._out = [
            h2.PREFACE,
            pack_settings({h2.ENABLE_PUSH: 0, h2.INITIAL_WINDOW_SIZE: WINDOW}),
            pack(h2.WINDOW_UPDATE, 0, 0, (WINDOW - FIRST_WINDOW).to_bytes(4)),
        ]
        self._streams: dict[int, Http2Stream] = {}
        self._numbers: dict[int, Http2Stream] = {}
        self._unopened: deque[Http2Stream] = deque()
        self._next = 1
        self._most = LAST_STREAM
        self._window, self._first_window, self._frame = FIRST_WINDOW, FIRST_WINDOW, h2.LARGEST_FRAME
        self._blocked: deque[Http2Stream] = deque()
        """Streams that wait for a window."""
        self._taken = 0
        self._block: tuple[int, int, bytes] | None = None
        """Headers that continue in the next frame: stream, flags, bytes so far."""
        self.set_up = False
        """True after the server's settings."""
        self._answers: list[bytes] = []
        """Answers to pings, sent when the owner of the socket takes them."""
        self.draining = False
        """True when new calls need another connection."""

    @property
    def busy(self) -> bool:
        return bool(self._numbers)

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

    def call(self, number: int, headers: tuple[Header, ...]) -> None:
        stream = self._numbers[number] = Http2Stream(number, headers, self._largest)
        self._unopened.append(stream)

    def send(self, number: int, message: bytes, last: bool) -> None:
        """Send a message, unless the call is over."""
        stream = self._numbers.get(number)
        if stream is None:
            return
        stream.queue(message, last)
        if stream.id:
            self._pump(stream)
        elif self._unopened:
            self._open_some()

    def cancel(self, number: int) -> None:
        """Cancel a call; its caller gets no more callbacks."""
        stream = self._numbers.pop(number, None)
        if stream is not None and stream.id:
            self._streams.pop(stream.id, None)
            self._reset(stream.id, h2.CANCEL)
        elif stream is not None:
            self._unopened.remove(stream)

    def ping(self) -> None:
        self._out.append(pack(h2.PING, 0, 0, bytes(8)))

    def lost(self, text: str) -> None:
        """End all calls: the connection is gone."""
        self._most, self.draining = 0, True
        for stream in list(self._numbers.values()):
            self._finish(stream, ("UNAVAILABLE", text))

    def feed(self, data: bytes) -> None:
        """Handle received bytes. Raises BadHttp2."""
        for kind, flags, stream, payload in self._splitter.feed(data):
            if (self._block is None) is (kind == h2.CONTINUATION):
                raise BadHttp2("headers are interrupted, or continue where none began")
            if not self.set_up and kind != h2.SETTINGS:
                raise BadHttp2("the server does not begin with its settings")
            act = self._ACTS.get(kind)
            if act is not None:
                act(self, flags, stream, payload)

    def _open_some(self) -> None:
        while self._unopened and len(self._streams) < self._most and self.set_up:
            stream = self._unopened.popleft()
            stream.id, self._next = self._next, self._next + 2
            self.draining = self.draining or self._next >= LAST_STREAM
            stream.window = self._first_window
            self._streams[stream.id] = stream
            self._out.append(pack(h2.HEADERS, h2.END_HEADERS, stream.id, self._encoder.encode(stream.headers)))
            self._pump(stream)

    def _pump(self, stream: Http2Stream) -> None:
        """Send what the windows take; the rest waits for them."""
        pending, at = stream.pending, 0
        while at < len(pending):
            size = min(len(pending) - at, stream.window, self._window, self._frame)
            if size <= 0:
                if stream not in self._blocked:
                    self._blocked.append(stream)
                break
            part = pending[at : at + size]
            at += size
            stream.window -= size
            self._window -= size
            done = stream.last and at == len(pending)
            self._out.append(pack(h2.DATA, h2.END_STREAM if done else 0, stream.id, part))
        stream.pending = pending[at:]

    def _unblock(self) -> None:
        for _ in range(len(self._blocked)):
            stream = self._blocked.popleft()
            if stream.id in self._streams:
                self._pump(stream)

    def _reset(self, stream: int, code: int) -> None:
        self._out.append(pack(h2.RST_STREAM, 0, stream, code.to_bytes(4)))

    def _finish(self, stream: Http2Stream, end: End) -> None:
        self._streams.pop(stream.id, None)
        self._numbers.pop(stream.number, None)
        if not stream.id and stream in self._unopened:
            self._unopened.remove(stream)
        self._on_end(stream.number, *end)
        if self._unopened:
            self._open_some()

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
        self._deliver(stream, unpadded(flags & ~h2.PRIORITIZED, payload) if flags & h2.PADDED else payload)
        if flags & h2.END_STREAM and id in self._streams:
            self._finish(stream, stream.end())

    def _deliver(self, stream: Http2Stream, data: bytes) -> None:
        try:
            for message in stream.take(data):
                self._on_message(stream.number, message)
        except ValueError as error:
            self._reset(stream.id, h2.CANCEL)
            self._finish(stream, ("RESOURCE_EXHAUSTED", str(error)))

    def _on_headers(self, flags: int, id: int, payload: bytes) -> None:
        if flags & (h2.PADDED | h2.PRIORITIZED):
            payload = unpadded(flags, payload)
        self._on_block(flags, id, payload)

    def _on_continuation(self, flags: int, id: int, payload: bytes) -> None:
        began, first, block = self._block or (0, 0, b"")
        if began != id:
            raise BadHttp2("headers of one stream are interrupted by another's")
        self._on_block(first & ~h2.END_HEADERS | flags & h2.END_HEADERS, id, block + payload)

    def _on_block(self, flags: int, id: int, block: bytes) -> None:
        """Decode headers even of cancelled calls: all streams share the header table."""
        if len(block) > HEADERS_LIMIT:
            raise BadHttp2("headers are too long")
        if not flags & h2.END_HEADERS:
            self._block = (id, flags, block)
            return
        self._block = None
        headers = self._decoder.decode(block)
        stream = self._streams.get(id)
        if stream is None:
            return
        stream.add_headers(headers)
        if flags & h2.END_STREAM:
            self._finish(stream, stream.end())

    def _on_reset(self, flags: int, id: int, payload: bytes) -> None:
        stream = self._streams.get(id)
        if stream is not None:
            self._finish(stream, reset(number_of(payload)))

    def _on_settings(self, flags: int, id: int, payload: bytes) -> None:
        if flags & h2.ACK:
            return
        for name, value in read_settings(payload):
            self._set(name, value)
        self.set_up = True
        self._out.append(pack(h2.SETTINGS, h2.ACK, 0))
        self._unblock()
        self._open_some()

    def _set(self, name: int, value: int) -> None:
        if name == h2.HEADER_TABLE_SIZE and value < TABLE_SIZE:
            self._encoder.forget()
        elif name == h2.MAX_CONCURRENT_STREAMS:
            self._most = value
        elif name == h2.INITIAL_WINDOW_SIZE:
            for stream in self._streams.values():
                stream.window += value - self._first_window
            self._first_window = value
        elif name == h2.MAX_FRAME_SIZE:
            self._frame = value

    def _on_ping(self, flags: int, id: int, payload: bytes) -> None:
        if not flags & h2.ACK:
            self._answers.append(pack(h2.PING, h2.ACK, 0, payload))

    def _on_goaway(self, flags: int, id: int, payload: bytes) -> None:
        """End the calls that the server has not begun; the rest may finish."""
        self.draining = True
        last = number_of(payload[:4])
        for stream in [s for s in self._numbers.values() if not s.id or s.id > last]:
            self._finish(stream, ("UNAVAILABLE", h2.GOING_AWAY))

    def _on_window(self, flags: int, id: int, payload: bytes) -> None:
        more = number_of(payload)
        if not id:
            self._window += more
        elif id in self._streams:
            self._streams[id].window += more
        if self._window > LARGEST_WINDOW:
            raise BadHttp2("the window became too large")
        self._unblock()

    def _on_push(self, flags: int, id: int, payload: bytes) -> None:
        raise BadHttp2("the server pushes, although pushes are disabled")

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
