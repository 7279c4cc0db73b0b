"""The vocabulary: messages, their fields, and values that are one field on the wire and one value in JSON."""

import base64
import binascii
import enum
import math
import struct
from collections.abc import Callable
from typing import Any

import msgspec

from protocols.kube.errors import KubeError

VARINT, FIXED64, DELIMITED, GROUP, GROUP_END, FIXED32 = range(6)
"""Wire types."""


class Shape(enum.Enum):
    ONE = enum.auto()
    LIST = enum.auto()
    MAP = enum.auto()
    INLINE = enum.auto()
    """A message whose fields stand in the parent's JSON object."""


class Leaf(msgspec.Struct, frozen=True):
    """A value that is no message to us. `read` takes an int (VARINT) or bytes (DELIMITED, FIXED64), `write` returns it.

    `read` raises ProtobufInvalid and may answer None: the field is unset. `write` raises Unencodable.
    """

    wire: int
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    scalar: bool = True
    """JSON may leave out its zero."""


class Field(msgspec.Struct, frozen=True):
    """Exactly one of `leaf` and `message` is set."""

    number: int
    name: str
    shape: Shape
    leaf: Leaf | None = None
    message: "Message | None" = None
    keep_zero: bool = False


class Union(msgspec.Struct, frozen=True):
    """A message that is one of several types in JSON. Both functions take one form and return the other."""

    read: Callable[[dict[str, Any]], Any]
    write: Callable[[Any], dict[str, Any]]
    """Raises Unencodable."""


class Message(msgspec.Struct, eq=False):
    """`fields` by number, in the order they are written; filled after creation, as messages name each other."""

    name: str
    fields: dict[int, Field] = msgspec.field(default_factory=dict)
    union: Union | None = None


class ProtobufInvalid(KubeError):
    """Raised when bytes are not the message they should be: broken, cut off, of wrong types or beyond the limits."""


class KindUnknown(KubeError, http=415):
    """Raised when there are no field numbers for a kind; its objects travel as JSON only."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(f"no protobuf form of kind {kind!r} in version {api_version!r} is known")


class Unencodable(KubeError, http=500, grpc="INTERNAL"):
    """Raised when a value has a type that its message has no place for."""


def read_string(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ProtobufInvalid("a string is not UTF-8") from None


def write_string(value: Any) -> bytes:
    try:
        if isinstance(value, str):
            return value.encode()
    except UnicodeEncodeError:
        pass
    raise Unencodable(f"not a string: {value!r:.80}")


def signed(bits: int) -> Callable[[int], int]:
    """A varint as a signed number of so many bits; higher bits fall away, as in Go."""
    mask, sign = (1 << bits) - 1, 1 << bits - 1

    def read(value: int) -> int:
        return (value & mask ^ sign) - sign

    return read


def checked(bits: int) -> Callable[[Any], int]:
    limit = 1 << bits - 1

    def write(value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit:
            return value
        raise Unencodable(f"not a number of {bits} bits: {value!r:.80}")

    return write


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
    "str": Leaf(DELIMITED, read_string, write_string),
    "int32": Leaf(VARINT, signed(32), checked(32)),
    "int64": Leaf(VARINT, signed(64), checked(64)),
    "bool": Leaf(VARINT, bool, _write_bool),
    "bytes": Leaf(DELIMITED, _read_bytes, _write_bytes),
    "double": Leaf(FIXED64, _read_double, _write_double),
}
