"""A client's end of one HTTP/2 connection that carries gRPC calls. Pure: bytes in, bytes and callbacks out.

A stream ends exactly once, for its caller and for the connection.
"""

from collections import deque
from collections.abc import Callable

from protocols.http2 import frames as h2
from protocols.http2.frames import pack
from protocols.http2.hpack import Header
from protocols.http2.session import Session
from protocols.http2.stream import End, Http2Stream, reset

LAST_STREAM = (1 << 31) - 1
OnMessage = Callable[[int, bytes], None]
OnEnd = Callable[[int, str, str], None]


class Http2Session(Session):
    """Calls of one connection, each with a number chosen by its caller."""

    def __init__(
        self, on_message: OnMessage, on_end: OnEnd, largest: int, on_begun: Callable[[int], None] = lambda number: None
    ) -> None:
        super().__init__({h2.ENABLE_PUSH: 0})
        self._out.insert(0, h2.PREFACE)
        self._on_message, self._on_end, self._largest, self._on_begun = on_message, on_end, largest, on_begun
        self._numbers: dict[int, Http2Stream] = {}
        self._unopened: deque[Http2Stream] = deque()
        self._next = 1
        self._most = LAST_STREAM

    @property
    def busy(self) -> bool:
        return bool(self._numbers)

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
            self._drop(stream)
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

    def _open_some(self) -> None:
        while self._unopened and len(self._streams) < self._most and self.set_up:
            stream = self._unopened.popleft()
            stream.id, self._next = self._next, self._next + 2
            self.draining = self.draining or self._next >= LAST_STREAM
            stream.window = self._first_window
            self._streams[stream.id] = stream
            self._out.append(pack(h2.HEADERS, h2.END_HEADERS, stream.id, self._encoder.encode(stream.headers)))
            self._pump(stream)

    def _finish(self, stream: Http2Stream, end: End) -> None:
        self._drop(stream)
        self._numbers.pop(stream.number, None)
        if not stream.id and stream in self._unopened:
            self._unopened.remove(stream)
        self._on_end(stream.number, *end)
        if self._unopened:
            self._open_some()

    def _on_header_list(self, id: int, headers: list[Header], last: bool) -> None:
        stream = self._streams.get(id)
        if stream is None:
            return
        stream.add_headers(headers)
        if last:
            self._finish(stream, stream.end())
        else:
            self._on_begun(stream.number)

    def _on_stream_data(self, stream: Http2Stream, data: bytes, last: bool) -> None:
        self._deliver(stream, data)
        if last and stream.id in self._streams:
            self._finish(stream, stream.end())

    def _deliver(self, stream: Http2Stream, data: bytes) -> None:
        try:
            for message in stream.take(data):
                self._on_message(stream.number, message)
        except ValueError as error:
            self._reset(stream.id, h2.CANCEL)
            self._finish(stream, ("RESOURCE_EXHAUSTED", str(error)))

    def _on_stream_reset(self, stream: Http2Stream, code: int) -> None:
        self._finish(stream, reset(code))

    def _on_new_settings(self) -> None:
        self._open_some()

    def _set(self, name: int, value: int) -> None:
        if name == h2.MAX_CONCURRENT_STREAMS:
            self._most = value
        else:
            super()._set(name, value)

    def _on_last_stream(self, last: int) -> None:
        """End the calls that the server has not begun; the rest may finish."""
        for stream in [s for s in self._numbers.values() if not s.id or s.id > last]:
            self._finish(stream, ("UNAVAILABLE", h2.GOING_AWAY))
