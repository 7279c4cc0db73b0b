"""The Huffman code of RFC 7541, appendix B: header values of Go's servers come in it.

The code is canonical: symbols sorted by length, then by value, get consecutive codes. So the lengths are all of it.
"""

import functools

from protocols.http2.frames import BadHttp2

LENGTHS: dict[int, tuple[int, ...]] = {
    5: (48, 49, 50, 97, 99, 101, 105, 111, 115, 116),
    6: (
        32, 37, 45, 46, 47, 51, 52, 53, 54, 55, 56, 57, 61, 65, 95, 98, 100, 102, 103, 104, 108, 109, 110, 112,
        114, 117
    ),
    7: (
        58, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 89, 106,
        107, 113, 118, 119, 120, 121, 122
    ),
    8: (38, 42, 44, 59, 88, 90),
    10: (33, 34, 40, 41, 63),
    11: (39, 43, 124),
    12: (35, 62),
    13: (0, 36, 64, 91, 93, 126),
    14: (94, 125),
    15: (60, 96, 123),
    19: (92, 195, 208),
    20: (128, 130, 131, 162, 184, 194, 224, 226),
    21: (153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230),
    22: (
        129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170, 173, 178, 181, 185, 186, 187, 189, 190,
        196, 198, 228, 232, 233
    ),
    23: (
        1, 135, 137, 138, 139, 140, 141, 143, 147, 149, 150, 151, 152, 155, 157, 158, 165, 166, 168, 174, 175,
        180, 182, 183, 188, 191, 197, 231, 239
    ),
    24: (9, 142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237),
    25: (199, 207, 234, 235),
    26: (192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255),
    27: (203, 204, 211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253, 254),
    28: (
        2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 127,
        220, 249
    ),
    30: (10, 13, 22),
}  # fmt: skip
"""Length of the code in bits: its symbols, in order. The end-of-string symbol, of 30 bits, never stands in a value."""
LONGEST = max(LENGTHS)
KNOWN_TEXT = 256
"""Bytes of a value whose text is remembered; 256 values are."""
PADDING = 7
"""A value ends with fewer bits than this of ones, or none."""


def _codes() -> dict[tuple[int, int], int]:
    codes, code, before = {}, 0, 0
    for length, symbols in LENGTHS.items():
        code <<= length - before
        before = length
        for symbol in symbols:
            codes[length, code] = symbol
            code += 1
    return codes


_CODES = _codes()


def decode(data: bytes) -> bytes:
    """Raises BadHttp2. Short values repeat, so it need not be quick: 1 us a byte."""
    return _known(data) if len(data) <= KNOWN_TEXT else _decode(data)


def _decode(data: bytes) -> bytes:
    found, code, length = bytearray(), 0, 0
    for bit in f"{int.from_bytes(data):0{8 * len(data)}b}" if data else "":
        code, length = code << 1 | (bit == "1"), length + 1
        symbol = _CODES.get((length, code))
        if symbol is not None:
            found.append(symbol)
            code = length = 0
        elif length >= LONGEST:  # further bits would make a number of all of them
            break
    if length > PADDING or code != (1 << length) - 1:
        raise BadHttp2("a header's value does not end as the Huffman code must")
    return bytes(found)


_known = functools.lru_cache(maxsize=256)(_decode)
