"""Scalars: string, int32, int64, bool, bytes (base64 in JSON)."""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from protocols.kube.protobuf.errors import ProtobufInvalid, Unencodable
from protocols.kube.protobuf.types import DELIMITED, VARINT, Leaf


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


SCALARS = {
    "string": Leaf(DELIMITED, read_string, write_string),
    "int32": Leaf(VARINT, signed(32), checked(32)),
    "int64": Leaf(VARINT, signed(64), checked(64)),
    "bool": Leaf(VARINT, bool, _write_bool),
    "bytes": Leaf(DELIMITED, _read_bytes, _write_bytes),
}
