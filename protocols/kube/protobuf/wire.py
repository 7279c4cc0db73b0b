"""The wire format below messages: varints, tags, lengths, and how to step over what is not known."""

from protocols.kube.protobuf.types import DELIMITED, FIXED32, FIXED64, GROUP, GROUP_END, VARINT, ProtobufInvalid
from protocols.wire.protobuf import U64

GROUP_DEPTH = 32
"""Deepest nesting of unknown groups."""


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """(value below 2**64, position behind it). Raises ProtobufInvalid."""
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


def read_tag(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """(field number, wire type, position behind them). Raises ProtobufInvalid."""
    tag, at = read_varint(data, at, end)
    if not 1 <= tag >> 3 < 1 << 29:
        raise ProtobufInvalid(f"illegal field number {tag >> 3}")
    return tag >> 3, tag & 7, at


def read_span(data: bytes, at: int, end: int) -> tuple[int, int]:
    """(start, stop) of a length-delimited value. Raises ProtobufInvalid."""
    size, at = read_varint(data, at, end)
    if size > end - at:
        raise ProtobufInvalid(f"a value of {size} bytes does not fit into the {end - at} bytes left")
    return at, at + size


def skip(wire: int, data: bytes, at: int, end: int) -> int:
    """The position behind a value of an unknown field. Raises ProtobufInvalid."""
    depth = 0
    while True:
        if wire == GROUP:
            depth += 1
            if depth > GROUP_DEPTH:
                raise ProtobufInvalid("groups are nested too deep")
        elif wire == GROUP_END and depth:
            depth -= 1
        else:
            at = _skip_one(wire, data, at, end)
        if not depth:
            return at
        _, wire, at = read_tag(data, at, end)


def _skip_one(wire: int, data: bytes, at: int, end: int) -> int:
    if wire == VARINT:
        return read_varint(data, at, end)[1]
    if wire == DELIMITED:
        return read_span(data, at, end)[1]
    size = {FIXED64: 8, FIXED32: 4}.get(wire)
    if size is None:
        raise ProtobufInvalid(f"illegal wire type {wire}")
    if size > end - at:
        raise ProtobufInvalid("unexpected end of the message inside a number")
    return at + size
