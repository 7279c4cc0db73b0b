"""SPDY 3.1 frames and header blocks, which are compressed with a preset dictionary. Pure."""

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from protocols.errors import NodeplaneError


class SpdyBroken(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when the peer's bytes are no SPDY/3 or pass a limit; the connection cannot go on."""


VERSION = 3
SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FIN = 0x01
LARGEST = 1024 * 1024
"""Bytes of one frame; clients send at most 32 KiB at once."""
_CONTROL = 0x8000_0000
_ID = 0x7FFF_FFFF


class SpdyFrame(NamedTuple):
    """A data or control frame without its header of 8 bytes."""

    kind: int
    """0: data."""
    flags: int
    stream: int
    """Stream of data frames; control frames have it in their payload."""
    payload: bytes

    @property
    def is_fin(self) -> bool:
        return bool(self.flags & FIN)


def pack(frame: SpdyFrame) -> bytes:
    """Return a frame with its header."""
    first = _CONTROL | VERSION << 16 | frame.kind if frame.kind else frame.stream & _ID
    return first.to_bytes(4, "big") + (frame.flags << 24 | len(frame.payload)).to_bytes(4, "big") + frame.payload


def pack_control(kind: int, *numbers: int, flags: int = 0, rest: bytes = b"") -> bytes:
    """Return a control frame whose payload begins with 32-bit numbers."""
    return pack(SpdyFrame(kind, flags, 0, b"".join(number.to_bytes(4, "big") for number in numbers) + rest))


def pack_data(stream: int, data: bytes, fin: bool = False) -> bytes:
    """Return one data frame; `fin` ends this side of the stream."""
    return pack(SpdyFrame(0, FIN if fin else 0, stream, data))


def number(frame: SpdyFrame, index: int = 0) -> int:
    """Return a 32-bit number of a control frame, counted from its front. Raises SpdyBroken."""
    data = frame.payload[4 * index : 4 * index + 4]
    if len(data) < 4:
        raise SpdyBroken(f"a control frame of kind {frame.kind} is too short")
    return int.from_bytes(data, "big") & _ID


class FrameReader:
    """Bytes in any portions; frames as they are complete. Holds at most one frame."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[SpdyFrame]:
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
            yield (
                SpdyFrame(first & 0xFFFF, flags, 0, payload)
                if first & _CONTROL
                else SpdyFrame(0, flags, first, payload)
            )


_WORDS = """
options, head, post, put, delete, trace, accept, accept-charset, accept-encoding, accept-language,
accept-ranges, age, allow, authorization, cache-control, connection, content-base, content-encoding,
content-language, content-length, content-location, content-md5, content-range, content-type, date, etag,
expect, expires, from, host, if-match, if-modified-since, if-none-match, if-range, if-unmodified-since,
last-modified, location, max-forwards, pragma, proxy-authenticate, proxy-authorization, range, referer,
retry-after, server, te, trailer, transfer-encoding, upgrade, user-agent, vary, via, warning,
www-authenticate, method, get, status, 200 OK, version, HTTP/1.1, url, public, set-cookie, keep-alive, origin
"""
_TAIL = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Au"
    b"thoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidd"
    b"en404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr Ma"
    b"y Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,imag"
    b"e/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,publicpri"
    b"vatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)

DICTIONARY = (
    b"".join(struct.pack(">I", len(word)) + word.encode() for word in _WORDS.strip().replace(",\n", ", ").split(", "))
    + _TAIL
)
"""1423 bytes with the checksum e3c6a7c2, by which zlib knows it."""


LARGEST_HEADERS = 4 * 1024
"""Bytes of one block, unpacked; clients send a type and a port. A frame of 90 bytes could hold 64 KiB."""
MOST = 100
"""Headers in one block."""


class HeaderWriter:
    """Header blocks of one direction; they must reach the peer in the order in which they were made."""

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(9, zlib.DEFLATED, 15, 8, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)

    def pack(self, headers: dict[str, str]) -> bytes:
        plain = struct.pack(">I", len(headers)) + b"".join(
            _text(name.lower()) + _text(value) for name, value in headers.items()
        )
        return self._zlib.compress(plain) + self._zlib.flush(zlib.Z_SYNC_FLUSH)


class HeaderReader:
    """Unpacks header blocks of one connection in the order of their arrival."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(15, DICTIONARY)

    def unpack(self, block: bytes) -> dict[str, str]:
        """Return headers with names in lower case; of repeated ones the first value. Raises SpdyBroken."""
        try:
            plain = self._zlib.decompress(block, LARGEST_HEADERS)
        except zlib.error:
            raise SpdyBroken("a header block does not unpack") from None
        if self._zlib.unconsumed_tail:
            raise SpdyBroken(f"a header block unpacks to more than {LARGEST_HEADERS} bytes")
        return _parse(plain)


def _parse(plain: bytes) -> dict[str, str]:
    words, at = [], 4
    count = _number(plain, 0)
    if count > MOST:
        raise SpdyBroken(f"{count} headers in one block")
    for _ in range(2 * count):
        size = _number(plain, at)
        word = plain[at + 4 : at + 4 + size]
        if len(word) != size:
            raise SpdyBroken("a header block is cut off")
        words.append(word.split(b"\0")[0].decode("utf-8", "replace"))
        at += 4 + size
    return {name.lower(): value for name, value in zip(words[::2], words[1::2], strict=True)}


def _number(plain: bytes, at: int) -> int:
    if len(plain) < at + 4:
        raise SpdyBroken("a header block is cut off")
    return int.from_bytes(plain[at : at + 4], "big")


def _text(word: str) -> bytes:
    data = word.encode()
    return struct.pack(">I", len(data)) + data
