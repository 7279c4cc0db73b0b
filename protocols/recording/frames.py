"""The file format: a signature with the version, then frames. See docs/reference/recording.md.

A frame is a header (kind, compressed and raw length, CRC-32 of the compressed body, time) and a zlib body of msgpack.
Frames are only appended, each by one write: what kill -9 leaves is a whole prefix and at most one cut frame.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from protocols.errors import NodeplaneError

T = TypeVar("T")

SIGNATURE = b"NPREC\r\n\x1a"
VERSION = 1
_START = struct.Struct(">8sH")
_FRAME = struct.Struct(">BIIIQ")
START_BYTES, FRAME_BYTES = _START.size, _FRAME.size
HEADER, KEY, CHANGES, ENTRIES = 0, 1, 2, 3
"""Kinds: who recorded; the state anew (the changes that follow complete it); changes of the state; what happened."""
MOST_BYTES = 1 << 30
"""Bytes of a file that is read."""
MOST_FRAME = 16 << 20
"""Bytes of a frame, compressed or not."""
MOST_RAW = 8 << 30
"""Bytes of all frames together when they are not compressed."""
LEVEL = 6


class RecordingInvalid(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised for a file that is no recording, is damaged, too large, or of a version that is not read."""


class Header(msgspec.Struct, frozen=True):
    """The first frame."""

    nodeplane: str
    """Version of the recorder."""
    started_ms: int
    """Unix time."""
    node: str
    feature_gates: dict[str, bool]


class RecordedChange(msgspec.Struct, frozen=True, array_like=True):
    """One change of the state: `source` names a map of values, `key` one of them."""

    at_ms: int
    source: str
    key: str
    delta: list[Any]


class RecordedEntry(msgspec.Struct, frozen=True, array_like=True):
    """Something that happened: an event, a span, a call, a line of a log."""

    at_ms: int
    source: str
    key: str
    value: Any


class RecordedChanges(msgspec.Struct, frozen=True, array_like=True):
    """The body of KEY and CHANGES."""

    changes: tuple[RecordedChange, ...]


class RecordedFrame(msgspec.Struct, frozen=True):
    """Header of one frame of a file."""

    kind: int
    at_ms: int
    begin: int
    """Position of the body in the file."""
    size: int
    raw: int

    @property
    def end(self) -> int:
        return self.begin + self.size


def start() -> bytes:
    """Return the first bytes of a file."""
    return _START.pack(SIGNATURE, VERSION)


def pack(kind: int, at_ms: int, body: bytes) -> bytes:
    """Return a frame with this body, of at most MOST_FRAME bytes."""
    data = zlib.compress(body, LEVEL)
    return _FRAME.pack(kind, len(data), len(body), zlib.crc32(data), at_ms) + data


def check_start(data: bytes | memoryview) -> None:
    """Raise RecordingInvalid unless this is the begin of a recording that can be read."""
    if len(data) < START_BYTES or bytes(data[: len(SIGNATURE)]) != SIGNATURE:
        raise RecordingInvalid("this is no recording; give a file that `nodeplane up --record FILE` wrote")
    version = _START.unpack(data[:START_BYTES])[1]
    if version != VERSION:
        raise RecordingInvalid(
            f"the recording has version {version}, and this nodeplane reads version {VERSION}: "
            f"use the nodeplane that wrote it"
        )


def frames(data: memoryview) -> Iterator[RecordedFrame]:
    """Yield the whole frames; a last one that is cut is left out. Raises RecordingInvalid."""
    check_start(data)
    position, raw_sum = START_BYTES, 0
    while position + FRAME_BYTES <= len(data):
        kind, size, raw, crc, at_ms = _FRAME.unpack(data[position : position + FRAME_BYTES])
        if kind > ENTRIES or size > MOST_FRAME or raw > MOST_FRAME:
            raise RecordingInvalid(f"the recording is damaged at byte {position}; copy it again from where it was made")
        frame = RecordedFrame(kind, at_ms, position + FRAME_BYTES, size, raw)
        if frame.end > len(data):
            return
        if zlib.crc32(data[frame.begin : frame.end]) != crc:
            raise RecordingInvalid(f"the recording is damaged at byte {position}; copy it again from where it was made")
        raw_sum += raw
        if raw_sum > MOST_RAW:
            raise RecordingInvalid(f"the recording has more than {MOST_RAW >> 30} GiB; record with a --record-limit")
        yield frame
        position = frame.end


def body(data: memoryview, frame: RecordedFrame) -> bytes:
    """Return the body of a frame, of exactly the length that it states. Raises RecordingInvalid."""
    unpack = zlib.decompressobj()
    try:
        content = unpack.decompress(data[frame.begin : frame.end], frame.raw + 1)
    except zlib.error as error:
        raise RecordingInvalid(f"the recording is damaged at byte {frame.begin}: {error}") from None
    if len(content) != frame.raw or not unpack.eof:
        raise RecordingInvalid(f"the frame at byte {frame.begin} is not of the length that it states; copy it again")
    return content


def convert(value: Any, kind: type[T]) -> T:
    """Return a recorded value as the struct that it was recorded from. Raises RecordingInvalid."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RecordingInvalid(f"the recording has no {kind.__name__} where one is due: {error}") from None
