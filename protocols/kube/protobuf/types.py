"""The vocabulary: messages, their fields, and scalars."""

import base64
import binascii
import math
import struct
from collections.abc import Callable
from typing import Any

import msgspec

from protocols.kube.errors import KubeError
from protocols.kube.protobuf.wire import DELIMITED, FIXED64, VARINT, ProtobufInvalid
from protocols.wire.protobuf import varint

ONE, LIST, MAP, INLINE = ("one", "list", "map", "inline")
"""Shapes of a field. INLINE: a message whose fields stand in the parent's JSON object."""


class Leaf(msgspec.Struct, frozen=True):
    """A scalar. `read` takes an int (VARINT) or bytes (DELIMITED, FIXED64), `write` returns it.

    `read` raises ProtobufInvalid, `write` raises Unencodable.
    """

    wire: int
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


class Union(msgspec.Struct, frozen=True):
    """A message that is one value in JSON. `read` takes its fields and returns the value, `write` the reverse.

    `read` raises ProtobufInvalid and may return None: the field is unset. `write` raises Unencodable.
    """

    read: Callable[[dict[str, Any]], Any]
    write: Callable[[Any], dict[str, Any]]


class Message(msgspec.Struct, eq=False):
    """`fields` by number, in the order they are written; filled after creation, as messages name each other."""

    name: str
    fields: "dict[int, WireField]" = msgspec.field(default_factory=dict)
    union: Union | None = None


class WireField:
    """One field of a message."""

    __slots__ = ("is_merged", "keep_zero", "name", "shape", "tag", "type", "wire")

    def __init__(self, number: int, name: str, shape: str, type: Any, *, keep_zero: bool = False) -> None:
        """`type` is a Leaf or a Message; that of a map is the message of its entries."""
        self.name, self.shape, self.type, self.keep_zero = name, shape, type, keep_zero
        self.wire = type.wire if isinstance(type, Leaf) else DELIMITED
        self.is_merged = isinstance(type, Message) and type.union is None and shape in (ONE, INLINE)
        self.tag = varint(number << 3 | self.wire)


class KindUnknown(KubeError, http=415):
    """Raised when there are no field numbers for a kind; its objects travel as JSON only."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(f"no protobuf form of kind {kind!r} in version {api_version!r} is known")


class Unencodable(KubeError, http=500, grpc="INTERNAL"):
    """Raised when a value has a type that its message has no place for."""


def _read_string(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ProtobufInvalid("a string is not UTF-8") from None


def write_string(value: Any) -> bytes:
    """Return the UTF-8 bytes of a string; any other value, or a lone surrogate, raises Unencodable."""
    try:
        if isinstance(value, str):
            return value.encode()
    except UnicodeEncodeError:
        pass
    raise Unencodable(f"not a string: {value!r:.80}")


def _signed(bits: int) -> Leaf:
    """A signed number of so many bits; a longer one loses its higher bits, as in Go."""
    mask, limit = (1 << bits) - 1, 1 << bits - 1

    def read(value: int) -> int:
        return (value & mask ^ limit) - limit

    def write(value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit:
            return value
        raise Unencodable(f"not a number of {bits} bits: {value!r:.80}")

    return Leaf(VARINT, read, write)


def _write_bool(value: Any) -> int:
    if isinstance(value, bool):
        return int(value)
    raise Unencodable(f"not a boolean: {value!r:.80}")


def _read_bytes(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _write_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise Unencodable(f"not base64: {value!r:.80}") from None


def _read_double(raw: bytes) -> float | int:
    """Whole numbers become integers, as in Go's JSON. Raises ProtobufInvalid."""
    value: float = struct.unpack("<d", raw)[0]
    if not math.isfinite(value):
        raise ProtobufInvalid(f"{value} is no number of JSON")
    return int(value) if value.is_integer() and abs(value) < WHOLE else value


def _write_double(value: Any) -> bytes:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return struct.pack("<d", value)
        except OverflowError:
            pass
    raise Unencodable(f"not a number: {value!r:.80}")


WHOLE = 2.0**53
SCALARS = {
    "str": Leaf(DELIMITED, _read_string, write_string),
    "int32": _signed(32),
    "int64": _signed(64),
    "bool": Leaf(VARINT, bool, _write_bool),
    "bytes": Leaf(DELIMITED, _read_bytes, _write_bytes),
    "double": Leaf(FIXED64, _read_double, _write_double),
}
