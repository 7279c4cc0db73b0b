"""Just enough of protobuf's wire form to read the checked expression that the engine serializes."""

from collections.abc import Iterator

Value = int | bytes


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """(number, value) of one message. The engine wrote it: it is sound."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, form = key >> 3, key & 7
        if form == 0:
            value, at = _varint(data, at)
            yield number, value
        elif form == 2:
            size, at = _varint(data, at)
            yield number, data[at : at + size]
            at += size
        else:
            size = 8 if form == 1 else 4
            yield number, data[at : at + size]
            at += size


def message(data: bytes, number: int) -> bytes:
    """The last field of that number, empty if there is none."""
    found = b""
    for each, value in fields(data):
        if each == number and isinstance(value, bytes):
            found = value
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, at
        shift += 7
