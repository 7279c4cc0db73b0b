"""The opening end of a connection: streams are made here, the peer answers on them. Pure."""

from collections.abc import Iterator

from protocols.streams.spdy import frames
from protocols.streams.spdy.frames import Frame, FrameReader
from protocols.streams.spdy.headers import HeaderReader, HeaderWriter
from protocols.streams.spdy.server import Answer, Data, Ended, Left, Reset

Event = Data | Ended | Reset | Answer | Left
_UNASSOCIATED = b"\0\0\0\0"
_NO_PRIORITY = b"\0\0"


class Client:
    """A stream that was reset is told of no more."""

    def __init__(self) -> None:
        self._reader = FrameReader()
        self._unpack = HeaderReader()
        self._pack = HeaderWriter()
        self._next = 1
        self._open: set[int] = set()

    def open(self, headers: dict[str, str]) -> tuple[int, bytes]:
        """The new stream's number and the bytes to send, in the order in which streams are opened."""
        stream, self._next = self._next, self._next + 2
        self._open.add(stream)
        rest = _UNASSOCIATED + _NO_PRIORITY + self._pack.pack(headers)
        return stream, frames.pack_control(frames.SYN_STREAM, stream, rest=rest)

    def feed(self, data: bytes) -> Iterator[Event]:
        """Raises SpdyBroken."""
        for frame in self._reader.feed(data):
            yield from self._on_frame(frame)

    def _on_frame(self, frame: Frame) -> Iterator[Event]:
        match frame.kind:
            case 0:
                yield from self._on_data(frame)
            case frames.SYN_REPLY | frames.HEADERS:
                stream = frames.number(frame)
                self._unpack.unpack(frame.payload[4:])  # not needed, but the blocks depend on each other
                yield from self._ended(stream, frame.fin)
            case frames.RST_STREAM:
                stream = frames.number(frame)
                if stream in self._open:
                    self._open.discard(stream)
                    yield Reset(stream)
            case frames.PING:
                yield Answer(frames.pack(frame))
            case frames.GOAWAY:
                yield Left()

    def _on_data(self, frame: Frame) -> Iterator[Event]:
        if frame.stream not in self._open:
            return
        if frame.payload:
            yield Data(frame.stream, frame.payload)
        yield from self._ended(frame.stream, frame.fin)

    def _ended(self, stream: int, fin: bool) -> Iterator[Event]:
        if fin and stream in self._open:
            self._open.discard(stream)
            yield Ended(stream)
