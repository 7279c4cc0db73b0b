"""Frames: eight bytes that say what follows, then that. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from protocols.streams.spdy.errors import SpdyBroken

VERSION = 3
SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FIN = 0x01
LARGEST = 1024 * 1024
"""Bytes of one frame; clients send at most 32 KiB at once."""
_CONTROL = 0x8000_0000
_ID = 0x7FFF_FFFF


class Frame(NamedTuple):
    kind: int
    """0: data."""
    flags: int
    stream: int
    """Of data; control frames carry it in their payload."""
    payload: bytes

    @property
    def fin(self) -> bool:
        return bool(self.flags & FIN)


def pack(frame: Frame) -> bytes:
    first = _CONTROL | VERSION << 16 | frame.kind if frame.kind else frame.stream & _ID
    return first.to_bytes(4, "big") + (frame.flags << 24 | len(frame.payload)).to_bytes(4, "big") + frame.payload


def pack_control(kind: int, *numbers: int, flags: int = 0, rest: bytes = b"") -> bytes:
    """A control frame whose payload begins with 32-bit numbers."""
    return pack(Frame(kind, flags, 0, b"".join(number.to_bytes(4, "big") for number in numbers) + rest))


def pack_data(stream: int, data: bytes, fin: bool = False) -> bytes:
    return pack(Frame(0, FIN if fin else 0, stream, data))


def number(frame: Frame, index: int = 0) -> int:
    """One of the 32-bit numbers at the front of a control frame. Raises SpdyBroken."""
    data = frame.payload[4 * index : 4 * index + 4]
    if len(data) < 4:
        raise SpdyBroken(f"a control frame of kind {frame.kind} is too short")
    return int.from_bytes(data, "big") & _ID


class FrameReader:
    """Bytes in any portions; frames as they are complete. Holds at most one frame."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Raises SpdyBroken, after the good frames before."""
        self._held += data
        while len(self._held) >= 8:
            first, second = (int.from_bytes(self._held[at : at + 4], "big") for at in (0, 4))
            size, flags = second & 0xFF_FFFF, second >> 24
            if first & _CONTROL and first >> 16 & 0x7FFF != VERSION:
                raise SpdyBroken("this is not SPDY/3")
            if size > LARGEST:
                raise SpdyBroken(f"a frame of {size} bytes")
            if len(self._held) < 8 + size:
                return
            payload = bytes(self._held[8 : 8 + size])
            del self._held[: 8 + size]
            yield Frame(first & 0xFFFF, flags, 0, payload) if first & _CONTROL else Frame(0, flags, first, payload)
