"""Protobuf's wire format: write varints and fields, and read messages from a trusted writer."""

Value = int | bytes
VARINT, DELIMITED = 0, 2
"""Wire types."""
U64 = (1 << 64) - 1
_SHORT = [bytes((value,)) for value in range(0x80)]


def varint(value: int) -> bytes:
    """Encode a number; negative ones as two's complement of 64 bits."""
    if 0 <= value < 0x80:
        return _SHORT[value]
    value &= U64
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Encode a field that holds a number."""
    return varint(field << 3 | VARINT) + varint(value)


def delimited(field: int, value: bytes) -> bytes:
    """Encode a field that holds a message, a string or bytes."""
    return varint(field << 3 | DELIMITED) + varint(len(value)) + value


def fields(data: bytes) -> list[tuple[int, Value]]:
    """Return (number, value) of each field of a message, which the engine wrote, so that it is valid.

    Short numbers, the rule, are read in place.
    """
    pairs: list[tuple[int, Value]] = []
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        at += 1
        if key > 127:
            key, at = _varint(data, at - 1)
        form = key & 7
        if form == 2 or form == 0:
            number = data[at]
            at += 1
            if number > 127:
                number, at = _varint(data, at - 1)
            if form == 0:
                pairs.append((key >> 3, number))
                continue
        else:
            number = 8 if form == 1 else 4
        pairs.append((key >> 3, data[at : at + number]))
        at += number
    return pairs


def message(data: bytes, number: int) -> bytes:
    """Return the last field of that number; empty if there is none."""
    last = b""
    for field_number, value in fields(data):
        if field_number == number and isinstance(value, bytes):
            last = value
    return last


def varints(value: Value) -> list[int]:
    """Return the numbers of a repeated field, packed or not."""
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        numbers.append(number)
    return numbers


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, at
        shift += 7
