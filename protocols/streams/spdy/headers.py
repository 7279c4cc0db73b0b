"""Header blocks: names and values, compressed over the whole connection with a shared dictionary. Pure."""

import struct
import zlib

from protocols.streams.spdy.dictionary import DICTIONARY
from protocols.streams.spdy.errors import SpdyBroken

LARGEST = 64 * 1024
"""Bytes of one block, unpacked."""
MOST = 100
"""Headers in one block."""


class HeaderWriter:
    """Of one direction; blocks must reach the peer in the order in which they were made."""

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(9, zlib.DEFLATED, 15, 8, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)

    def pack(self, headers: dict[str, str]) -> bytes:
        plain = struct.pack(">I", len(headers)) + b"".join(
            _text(name.lower()) + _text(value) for name, value in headers.items()
        )
        return self._zlib.compress(plain) + self._zlib.flush(zlib.Z_SYNC_FLUSH)


class HeaderReader:
    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(15, DICTIONARY)

    def unpack(self, block: bytes) -> dict[str, str]:
        """Names in lower case; of values given several times the first. Raises SpdyBroken."""
        try:
            plain = self._zlib.decompress(block, LARGEST)
        except zlib.error:
            raise SpdyBroken("a header block does not unpack") from None
        if self._zlib.unconsumed_tail:
            raise SpdyBroken(f"a header block unpacks to more than {LARGEST} bytes")
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
