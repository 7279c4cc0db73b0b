"""Header lists as bytes, and back (RFC 7541). Pure; one of each for a connection.

What we send repeats, so after its first time a header is one byte, here and for the server that reads it.
"""

from collections import deque

from protocols.http2 import huffman
from protocols.http2.frames import BadHttp2

Header = tuple[bytes, bytes]
TABLE_SIZE = 4096
"""Bytes of remembered headers, each way."""
OVERHEAD = 32
MOST_BLOCKS = 64
"""Whole header lists remembered, each way, as long as the table they refer to does not change."""
KNOWN_BLOCK = 1024
"""Bytes of a block that is remembered: 64 of 64 KiB would be 37 to 80 MB of headers for each connection."""
LARGEST_NUMBER = 1 << 28
STATIC: tuple[Header, ...] = (
    (b":authority", b""), (b":method", b"GET"), (b":method", b"POST"), (b":path", b"/"), (b":path", b"/index.html"),
    (b":scheme", b"http"), (b":scheme", b"https"), (b":status", b"200"), (b":status", b"204"), (b":status", b"206"),
    (b":status", b"304"), (b":status", b"400"), (b":status", b"404"), (b":status", b"500"), (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"), (b"accept-language", b""), (b"accept-ranges", b""), (b"accept", b""),
    (b"access-control-allow-origin", b""), (b"age", b""), (b"allow", b""), (b"authorization", b""),
    (b"cache-control", b""), (b"content-disposition", b""), (b"content-encoding", b""), (b"content-language", b""),
    (b"content-length", b""), (b"content-location", b""), (b"content-range", b""), (b"content-type", b""),
    (b"cookie", b""), (b"date", b""), (b"etag", b""), (b"expect", b""), (b"expires", b""), (b"from", b""),
    (b"host", b""), (b"if-match", b""), (b"if-modified-since", b""), (b"if-none-match", b""), (b"if-range", b""),
    (b"if-unmodified-since", b""), (b"last-modified", b""), (b"link", b""), (b"location", b""),
    (b"max-forwards", b""), (b"proxy-authenticate", b""), (b"proxy-authorization", b""), (b"range", b""),
    (b"referer", b""), (b"refresh", b""), (b"retry-after", b""), (b"server", b""), (b"set-cookie", b""),
    (b"strict-transport-security", b""), (b"transfer-encoding", b""), (b"user-agent", b""), (b"vary", b""),
    (b"via", b""), (b"www-authenticate", b""),
)  # fmt: skip
_STATIC_AT = {header: place for place, header in enumerate(STATIC, 1)}


class DynamicTable:
    """Headers remembered, the newest first. Invariant: their size is at most `limit`."""

    def __init__(self) -> None:
        self.limit = TABLE_SIZE
        self._headers: deque[Header] = deque()
        self._size = 0

    def add(self, header: Header) -> None:
        self._headers.appendleft(header)
        self._size += _cost(header)
        self._evict()

    def shrink(self, limit: int) -> None:
        self.limit = limit
        self._evict()

    def at(self, place: int) -> Header:
        """Return a header by its index in both tables, static and dynamic. Raises BadHttp2."""
        if 0 < place <= len(STATIC):
            return STATIC[place - 1]
        if not 0 < place <= len(STATIC) + len(self._headers):
            raise BadHttp2(f"header {place} is not in the table")
        return self._headers[place - len(STATIC) - 1]

    def _evict(self) -> None:
        while self._size > self.limit:
            self._size -= _cost(self._headers.pop())


class Decoder:
    """Decodes header blocks of one connection in the order of their arrival; blocks that repeat are read once."""

    def __init__(self) -> None:
        self._table = DynamicTable()
        self._known: dict[bytes, list[Header]] = {}

    def decode(self, block: bytes) -> list[Header]:
        """Decode a block; callers must not change the result. Raises BadHttp2."""
        known = self._known.get(block)
        if known is not None:
            return known
        steady, headers = self._decode(block)
        if not steady:
            self._known.clear()
        elif len(self._known) < MOST_BLOCKS and len(block) <= KNOWN_BLOCK:
            self._known[block] = headers
        return headers

    def _decode(self, block: bytes) -> tuple[bool, list[Header]]:
        """Return whether the table is unchanged, and the headers. Raises BadHttp2."""
        steady, headers = True, list[Header]()
        at = 0
        while at < len(block):
            first = block[at]
            if first & 0x80:
                place, at = _number(block, at, 7)
                headers.append(self._table.at(place))
            elif first & 0xE0 == 0x20:
                size, at = _number(block, at, 5)
                if size > TABLE_SIZE:
                    raise BadHttp2("the header table may not become that large")
                self._table.shrink(size)
                steady = False
            else:
                remembered = bool(first & 0x40)
                header, at = self._literal(block, at, 6 if remembered else 4)
                headers.append(header)
                if remembered:
                    self._table.add(header)
                    steady = False
        return steady, headers

    def _literal(self, block: bytes, at: int, bits: int) -> tuple[Header, int]:
        place, at = _number(block, at, bits)
        if place:
            name = self._table.at(place)[0]
        else:
            name, at = _text(block, at)
        value, at = _text(block, at)
        return (name, value), at


class Encoder:
    """Encodes a bounded set of headers: once the table is full, further ones are not indexed."""

    def __init__(self) -> None:
        self._places: dict[Header, int] = {}
        self._room = TABLE_SIZE
        self._blocks: dict[tuple[Header, ...], bytes] = {}
        self._first = b""
        """Prefix of the next block: the table's new size."""

    def forget(self) -> None:
        """Stop indexing headers: the server's table is smaller than the default."""
        self._places.clear()
        self._blocks.clear()
        self._room, self._first = 0, b"\x20"

    def encode(self, headers: tuple[Header, ...]) -> bytes:
        known = self._blocks.get(headers)
        if known is not None and not self._first:
            return known
        first, self._first = self._first, b""
        remembered = len(self._places)
        block = b"".join(map(self._one, headers))
        if len(self._places) > remembered:
            self._blocks.clear()  # every place has moved
        elif len(self._blocks) < MOST_BLOCKS:
            self._blocks[headers] = block
        return first + block

    def _one(self, header: Header) -> bytes:
        place = _STATIC_AT.get(header)
        if place is None:
            position = self._places.get(header)
            if position is None:
                return self._new(header)
            place = len(STATIC) + len(self._places) - position
        return _packed(place, 7, 0x80)

    def _new(self, header: Header) -> bytes:
        literal = _packed(len(header[0]), 7, 0) + header[0] + _packed(len(header[1]), 7, 0) + header[1]
        if _cost(header) > self._room:
            return b"\0" + literal
        self._room -= _cost(header)
        self._places[header] = len(self._places)
        return b"\x40" + literal


def _cost(header: Header) -> int:
    return len(header[0]) + len(header[1]) + OVERHEAD


def _packed(number: int, bits: int, flags: int) -> bytes:
    most = (1 << bits) - 1
    if number < most:
        return bytes((flags | number,))
    packed, number = bytearray((flags | most,)), number - most
    while number >= 0x80:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*packed, number))


def _number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """The number at `at`, and where it ends. Raises BadHttp2."""
    most = (1 << bits) - 1
    number = block[at] & most
    at += 1
    if number < most:
        return number, at
    shift = 0
    while at < len(block):
        number += (block[at] & 0x7F) << shift
        if number > LARGEST_NUMBER:
            break
        at += 1
        if not block[at - 1] & 0x80:
            return number, at
        shift += 7
    raise BadHttp2("a number in a header is cut off or too large")


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    if at >= len(block):
        raise BadHttp2("a header is cut off")
    packed = bool(block[at] & 0x80)
    size, at = _number(block, at, 7)
    text = block[at : at + size]
    if len(text) < size:
        raise BadHttp2("a header is cut off")
    return (huffman.decode(text) if packed else text), at + size
