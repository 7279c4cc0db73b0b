"""Frames of HTTP/2 (RFC 9113): names of their kinds and flags, and how they are cut and packed. Pure."""

import struct
from collections.abc import Iterator

from protocols.errors import NodeplaneError


class BadHttp2(NodeplaneError, http=502, grpc="UNAVAILABLE"):
    """Raised when the other side does not speak HTTP/2 as it must; the connection is of no more use."""


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
ACK = END_STREAM = 0x1
END_HEADERS, PADDED, PRIORITIZED = 0x4, 0x8, 0x20
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = range(1, 6)
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0, 1, 2, 7, 8, 11
LARGEST_FRAME = 16_384
"""Largest frame: ours, and the default of RFC 9113."""
GOING_AWAY = "the server is going away"
"""Text of the error of a call that the server has not begun and will not begin."""
LARGEST_WINDOW = (1 << 31) - 1
_RANGES = {
    ENABLE_PUSH: (0, 1),
    INITIAL_WINDOW_SIZE: (0, LARGEST_WINDOW),
    MAX_FRAME_SIZE: (LARGEST_FRAME, (1 << 24) - 1),
}
"""Values of RFC 9113, section 6.5.2. A frame of size 0 would never carry what waits."""
_HEAD = struct.Struct(">HBBBI")
_SETTING = struct.Struct(">HI")

Frame = tuple[int, int, int, bytes]
"""Kind, flags, stream, payload."""


def pack(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame with its header; the caller splits payloads that are too large."""
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def pack_settings(pairs: dict[int, int]) -> bytes:
    """Return a SETTINGS frame."""
    return pack(SETTINGS, 0, 0, b"".join(_SETTING.pack(*pair) for pair in pairs.items()))


def read_settings(payload: bytes) -> dict[int, int]:
    """Return the settings of a frame: the last value of each, of the table's size the smallest. Raises BadHttp2.

    A frame may repeat a setting 2,730 times; a new window costs the owner a visit to each stream.
    """
    if len(payload) % _SETTING.size:
        raise BadHttp2("settings are cut off")
    settings: dict[int, int] = {}
    for name, value in _SETTING.iter_unpack(payload):
        smallest, largest = _RANGES.get(name, (0, value))
        if not smallest <= value <= largest:
            raise BadHttp2(f"setting {name} is {value}, not between {smallest} and {largest}")
        settings[name] = min(value, settings.get(name, value)) if name == HEADER_TABLE_SIZE else value
    return settings


def number_of(payload: bytes) -> int:
    """Return the number in a frame of one. Raises BadHttp2."""
    if len(payload) != 4:
        raise BadHttp2("a frame that holds one number has another size")
    return int.from_bytes(payload) & 0x7FFFFFFF


def unpadded(flags: int, payload: bytes) -> bytes:
    """Return the payload of DATA and HEADERS without padding. Raises BadHttp2."""
    if not flags & (PADDED | PRIORITIZED):
        return payload
    start, end = 0, len(payload)
    if flags & PADDED:
        start, end = 1, end - (payload[0] if payload else 0)
    if flags & PRIORITIZED:
        start += 5
    if start > end:
        raise BadHttp2("a frame is padded with more than it holds")
    return payload[start:end]


class Splitter:
    """Bytes as they come, frames as they were sent. Holds at most one unfinished frame."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Raises BadHttp2."""
        buffer = self._buffer + data if self._buffer else data
        at, size = 0, len(buffer)
        while size - at >= 9:
            high, low, kind, flags, stream = _HEAD.unpack_from(buffer, at)
            length = high << 8 | low
            if length > LARGEST_FRAME:
                raise BadHttp2(f"a frame of {length} bytes")
            end = at + 9 + length
            if end > size:
                break
            yield kind, flags, stream & 0x7FFFFFFF, buffer[at + 9 : end]
            at = end
        self._buffer = buffer[at:]
