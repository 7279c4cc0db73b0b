"""Both ends of a SPDY connection: events from the peer's bytes, and the bytes to answer with. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from protocols.streams import spdy_frames as frames
from protocols.streams.spdy_frames import FrameReader, HeaderReader, HeaderWriter, SpdyBroken, SpdyFrame

MOST_STREAMS = 512
PROTOCOL_ERROR, REFUSED_STREAM = 1, 3
"""Reasons of a reset."""


class Opened(NamedTuple):
    """Event: the peer opened a stream; names of headers are in lower case."""

    stream: int
    headers: dict[str, str]


class Data(NamedTuple):
    """Event: the peer sent bytes on a stream."""

    stream: int
    data: bytes


class StreamEnded(NamedTuple):
    """The peer will send no more on this stream."""

    stream: int


class Reset(NamedTuple):
    """Event: the peer ended a stream in both directions at once."""

    stream: int


class BytesToSend(NamedTuple):
    """Bytes to send now."""

    data: bytes


class Left(NamedTuple):
    """The peer opens no more streams."""


Event = Opened | Data | StreamEnded | Reset | BytesToSend | Left


class SpdyServer:
    """Streams are the peer's (odd numbers, growing). Call `forget` when nothing more is to be said on one."""

    def __init__(self) -> None:
        self._reader = FrameReader()
        self._unpack = HeaderReader()
        self._pack = HeaderWriter()
        self._open: set[int] = set()
        self._last = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """Raises SpdyBroken."""
        for frame in self._reader.feed(data):
            yield from self._on_frame(frame)

    def forget(self, stream: int) -> None:
        self._open.discard(stream)

    def reset(self, stream: int, reason: int = PROTOCOL_ERROR) -> bytes:
        self.forget(stream)
        return frames.pack_control(frames.RST_STREAM, stream, reason)

    def _on_frame(self, frame: SpdyFrame) -> Iterator[Event]:
        match frame.kind:
            case 0:
                yield from self._on_data(frame)
            case frames.SYN_STREAM:
                yield from self._on_open(frame)
            case frames.RST_STREAM:
                stream = frames.number(frame)
                if stream in self._open:
                    self.forget(stream)
                    yield Reset(stream)
            case frames.PING:
                yield BytesToSend(frames.pack(frame))
            case frames.HEADERS | frames.SYN_REPLY:
                self._unpack.unpack(frame.payload[4:])  # not needed, but the blocks depend on each other
            case frames.GOAWAY:
                yield Left()

    def _on_open(self, frame: SpdyFrame) -> Iterator[Event]:
        stream = frames.number(frame)
        if len(frame.payload) < 10:
            raise SpdyBroken("a stream is opened without headers")
        headers = self._unpack.unpack(frame.payload[10:])
        if stream <= self._last or stream % 2 == 0:
            raise SpdyBroken(f"stream {stream} after {self._last}")
        self._last = stream
        if len(self._open) >= MOST_STREAMS:
            yield BytesToSend(frames.pack_control(frames.RST_STREAM, stream, REFUSED_STREAM))
            return
        self._open.add(stream)
        yield BytesToSend(frames.pack_control(frames.SYN_REPLY, stream, rest=self._pack.pack({})))
        yield Opened(stream, headers)
        if frame.is_fin:
            yield StreamEnded(stream)

    def _on_data(self, frame: SpdyFrame) -> Iterator[Event]:
        if frame.stream not in self._open:
            return  # it was reset or forgotten while this was under way
        if frame.payload:
            yield Data(frame.stream, frame.payload)
        if frame.is_fin:
            yield StreamEnded(frame.stream)


ClientEvent = Data | StreamEnded | Reset | BytesToSend | Left
_UNASSOCIATED = b"\0\0\0\0"
_NO_PRIORITY = b"\0\0"


class Client:
    """Yields nothing more for a stream that was reset."""

    def __init__(self) -> None:
        self._reader = FrameReader()
        self._unpack = HeaderReader()
        self._pack = HeaderWriter()
        self._next = 1
        self._open: set[int] = set()

    def open(self, headers: dict[str, str]) -> tuple[int, bytes]:
        """Return the new stream's number and the bytes to send, in the order in which streams are opened."""
        stream, self._next = self._next, self._next + 2
        self._open.add(stream)
        rest = _UNASSOCIATED + _NO_PRIORITY + self._pack.pack(headers)
        return stream, frames.pack_control(frames.SYN_STREAM, stream, rest=rest)

    def feed(self, data: bytes) -> Iterator[ClientEvent]:
        """Raises SpdyBroken."""
        for frame in self._reader.feed(data):
            yield from self._on_frame(frame)

    def _on_frame(self, frame: SpdyFrame) -> Iterator[ClientEvent]:
        match frame.kind:
            case 0:
                yield from self._on_data(frame)
            case frames.SYN_REPLY | frames.HEADERS:
                stream = frames.number(frame)
                self._unpack.unpack(frame.payload[4:])  # not needed, but the blocks depend on each other
                yield from self._ended(stream, frame.is_fin)
            case frames.RST_STREAM:
                stream = frames.number(frame)
                if stream in self._open:
                    self._open.discard(stream)
                    yield Reset(stream)
            case frames.PING:
                yield BytesToSend(frames.pack(frame))
            case frames.GOAWAY:
                yield Left()

    def _on_data(self, frame: SpdyFrame) -> Iterator[ClientEvent]:
        if frame.stream not in self._open:
            return
        if frame.payload:
            yield Data(frame.stream, frame.payload)
        yield from self._ended(frame.stream, frame.is_fin)

    def _ended(self, stream: int, fin: bool) -> Iterator[ClientEvent]:
        if fin and stream in self._open:
            self._open.discard(stream)
            yield StreamEnded(stream)
