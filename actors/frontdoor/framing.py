"""Protobuf by concatenation: a message is its fields' bytes in a row, so what is encoded is never encoded again."""

LENGTH_DELIMITED = 2


def field(number: int, payload: bytes) -> bytes:
    """A field that holds a message, a string or bytes."""
    return varint(number << 3 | LENGTH_DELIMITED) + varint(len(payload)) + payload


def varint(value: int) -> bytes:
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)
