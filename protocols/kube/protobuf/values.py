"""Messages that are one value in JSON: times, quantities, ports by number or name, and JSON in bytes."""

import datetime
from collections.abc import Iterator
from typing import Any

import msgspec

from protocols.kube.jsons import as_go_writes, read_json
from protocols.kube.protobuf.types import (
    DELIMITED,
    VARINT,
    Leaf,
    ProtobufInvalid,
    Unencodable,
    checked,
    read_string,
    signed,
    write_string,
)
from protocols.kube.protobuf.wire import read_span, read_tag, read_varint, skip
from protocols.wire.protobuf import delimited, number

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_GO_ZERO = -62135596800
"""Seconds of year 1: what Go calls the zero time, unset."""
_INT, _STRING = 0, 1
"""The two types of IntOrString."""
_int32, _int64, _checked32 = signed(32), signed(64), checked(32)


def fields_of(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field; wire types other than VARINT and DELIMITED are stepped over."""
    at, end = 0, len(data)
    while at < end:
        field, wire, at = read_tag(data, at, end)
        if wire == VARINT:
            value, at = read_varint(data, at, end)
            yield field, value
        elif wire == DELIMITED:
            start, at = read_span(data, at, end)
            yield field, data[start:at]
        else:
            at = skip(wire, data, at, end)


def as_int(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ProtobufInvalid("bytes stand where a number is expected")
    return value


def as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ProtobufInvalid("a number stands where bytes are expected")
    return value


def _seconds_and_nanos(data: bytes) -> tuple[int, int]:
    found = {field: as_int(value) for field, value in fields_of(data) if field in (1, 2)}
    return _int64(found.get(1, 0)), _int32(found.get(2, 0))


def _instant(seconds: int, microseconds: int) -> datetime.datetime:
    try:
        return _EPOCH + datetime.timedelta(seconds=seconds, microseconds=microseconds)
    except OverflowError:
        raise ProtobufInvalid(f"{seconds} seconds are a time outside the years 1 to 9999") from None


def _read_time(data: bytes) -> str | None:
    seconds, _ = _seconds_and_nanos(data)
    if not data or seconds == _GO_ZERO:
        return None
    return _instant(seconds, 0).isoformat(timespec="seconds").replace("+00:00", "Z")


def _read_micro_time(data: bytes) -> str | None:
    seconds, nanos = _seconds_and_nanos(data)
    if not data or (seconds, nanos) == (_GO_ZERO, 0):
        return None
    return _instant(seconds, nanos // 1000).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _microseconds(value: Any) -> int:
    try:
        parsed = datetime.datetime.fromisoformat(value)
        return (parsed - _EPOCH) // _MICROSECOND
    except (ValueError, TypeError, OverflowError):
        raise Unencodable(f"not an RFC 3339 time: {value!r:.80}") from None


def _write_time(value: Any) -> bytes:
    return number(1, _microseconds(value) // 1_000_000) + number(2, 0)


def _write_micro_time(value: Any) -> bytes:
    seconds, micro = divmod(_microseconds(value), 1_000_000)
    return number(1, seconds) + number(2, micro * 1000)


def _read_quantity(data: bytes) -> str:
    found = "0"
    for field, value in fields_of(data):
        if field == 1:
            found = read_string(as_bytes(value))
    if not found:
        raise ProtobufInvalid("a quantity is empty")
    return found


def _write_quantity(value: Any) -> bytes:
    """Objects written by hand may have bare numbers."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return delimited(1, write_string(str(value) if plain else value))


def _read_int_or_string(data: bytes) -> int | str:
    found = {field: value for field, value in fields_of(data) if field in (1, 2, 3)}
    kind = _int64(as_int(found.get(1, _INT)))
    if kind == _INT:
        return _int32(as_int(found.get(2, 0)))
    if kind == _STRING:
        return read_string(as_bytes(found.get(3, b"")))
    raise ProtobufInvalid(f"{kind} is neither a number nor a string")


def _write_int_or_string(value: Any) -> bytes:
    if isinstance(value, str):
        return number(1, _STRING) + number(2, 0) + delimited(3, write_string(value))
    return number(1, _INT) + number(2, _checked32(value)) + delimited(3, b"")


def _read_raw(data: bytes) -> Any:
    raw = b""
    for field, value in fields_of(data):
        if field == 1:
            raw = as_bytes(value)
    if not raw:
        return None
    try:
        return read_json(raw)
    except msgspec.DecodeError as error:
        raise ProtobufInvalid(f"embedded JSON is broken: {error}") from None


def _write_raw(value: Any) -> bytes:
    try:
        return delimited(1, as_go_writes(msgspec.json.encode(value)))
    except (TypeError, ValueError, RecursionError) as error:
        raise Unencodable(f"no JSON: {error}") from None


def _read_strings(data: bytes) -> list[str]:
    return [read_string(as_bytes(value)) for field, value in fields_of(data) if field == 1]


def _write_strings(value: Any) -> bytes:
    if not isinstance(value, list):
        raise Unencodable(f"not a list: {value!r:.80}")
    return b"".join([delimited(1, write_string(item)) for item in value])


RAW = Leaf(DELIMITED, _read_raw, _write_raw, scalar=False)
VALUES = {
    "time": Leaf(DELIMITED, _read_time, _write_time, scalar=False),
    "microtime": Leaf(DELIMITED, _read_micro_time, _write_micro_time, scalar=False),
    "quantity": Leaf(DELIMITED, _read_quantity, _write_quantity, scalar=False),
    "int-or-string": Leaf(DELIMITED, _read_int_or_string, _write_int_or_string, scalar=False),
    "strings": Leaf(DELIMITED, _read_strings, _write_strings, scalar=False),
    "any": RAW,
    "json": RAW,
}
