"""The wire format below messages: varints, lengths, and how to step over what is not known."""

from protocols.kube.errors import KubeError
from protocols.wire.protobuf import U64

VARINT, FIXED64, DELIMITED, GROUP, GROUP_END, FIXED32 = range(6)
"""Wire types."""
GROUP_DEPTH = 32
"""Deepest nesting of unknown groups."""


class ProtobufInvalid(KubeError):
    """Raised when bytes are not the message they should be: broken, cut off, of wrong types or beyond the limits."""


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return (value below 2**64, position behind it). Raises ProtobufInvalid."""
    if at < end and data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise ProtobufInvalid("unexpected end of the message inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & U64, at
    raise ProtobufInvalid("a number is longer than 64 bits")


def read_value(wire: int, data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a number and the position behind it; of any other value, where it starts and stops.

    Raises ProtobufInvalid.
    """
    if wire <= DELIMITED and wire != FIXED64:
        size, at = (data[at], at + 1) if at < end and data[at] < 0x80 else read_varint(data, at, end)
        if wire == VARINT:
            return size, at
        if size > end - at:
            raise ProtobufInvalid(f"a value of {size} bytes does not fit into the {end - at} bytes left")
        return at, at + size
    size = {FIXED64: 8, FIXED32: 4}.get(wire, 0)
    if not size:
        raise ProtobufInvalid(f"illegal wire type {wire}")
    if size > end - at:
        raise ProtobufInvalid("unexpected end of the message inside a number")
    return at, at + size


def skip(tag: int, data: bytes, at: int, end: int) -> int:
    """Return the position behind the value of an unknown field. Raises ProtobufInvalid."""
    depth = 0
    while True:
        wire = tag & 7
        if not 1 <= tag >> 3 < 1 << 29:
            raise ProtobufInvalid(f"illegal field number {tag >> 3}")
        if wire == GROUP:
            depth += 1
            if depth > GROUP_DEPTH:
                raise ProtobufInvalid("groups are nested too deep")
        elif wire == GROUP_END and depth:
            depth -= 1
        else:
            at = read_value(wire, data, at, end)[1]
        if not depth:
            return at
        tag, at = read_varint(data, at, end)
