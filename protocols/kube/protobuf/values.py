"""Messages that are one value in JSON: times, quantities, ports by number or name, JSON in bytes, parts of schemas."""

import datetime
from typing import Any

import msgspec

from protocols.kube.jsons import as_go_writes, read_json
from protocols.kube.protobuf.types import (
    INLINE,
    LIST,
    ONE,
    SCALARS,
    Leaf,
    Message,
    Unencodable,
    Union,
    WireField,
    write_string,
)
from protocols.kube.protobuf.wire import DELIMITED, ProtobufInvalid

Fields = dict[str, Any]
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_GO_ZERO = -62135596800
"""Seconds of year 1: what Go calls the zero time, unset."""
_INT, _STRING = 0, 1
"""The two types of IntOrString."""


def _read_time(fields: Fields) -> str | None:
    seconds = fields.get("seconds", 0)
    return None if not fields or seconds == _GO_ZERO else _rfc3339(seconds, 0, "seconds")


def _read_micro_time(fields: Fields) -> str | None:
    seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
    unset = not fields or (seconds, nanos) == (_GO_ZERO, 0)
    return None if unset else _rfc3339(seconds, nanos // 1000, "microseconds")


def _rfc3339(seconds: int, microseconds: int, unit: str) -> str:
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds, microseconds=microseconds)
    except OverflowError:
        raise ProtobufInvalid(f"{seconds} seconds are a time outside the years 1 to 9999") from None
    return f"{moment.isoformat(timespec=unit)[:-6]}Z"


def _microseconds(value: Any) -> int:
    try:
        parsed = datetime.datetime.fromisoformat(value)
        return (parsed - _EPOCH) // _MICROSECOND
    except (ValueError, TypeError, OverflowError):
        raise Unencodable(f"not an RFC 3339 time: {value!r:.80}") from None


def _write_time(value: Any) -> Fields:
    return {} if value is None else {"seconds": _microseconds(value) // 1_000_000, "nanos": 0}


def _write_micro_time(value: Any) -> Fields:
    seconds, micro = divmod(_microseconds(value), 1_000_000)
    return {"seconds": seconds, "nanos": micro * 1000}


def _read_quantity(fields: Fields) -> Any:
    quantity = fields.get("string", "0")
    if not quantity:
        raise ProtobufInvalid("a quantity is empty")
    return quantity


def _write_quantity(value: Any) -> Fields:
    """Objects written by hand may have bare numbers."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return {"string": str(value) if plain else _text(value)}


def _read_int_or_string(fields: Fields) -> Any:
    kind = fields.get("type", _INT)
    if kind not in (_INT, _STRING):
        raise ProtobufInvalid(f"{kind} is neither a number nor a string")
    return fields.get("strVal", "") if kind == _STRING else fields.get("intVal", 0)


def _write_int_or_string(value: Any) -> Fields:
    if isinstance(value, str):
        return {"type": _STRING, "intVal": 0, "strVal": _text(value)}
    return {"type": _INT, "intVal": SCALARS["int32"].write(value), "strVal": ""}


def _read_raw(fields: Fields) -> Any:
    try:
        return read_json(fields["raw"]) if fields.get("raw") else None
    except msgspec.DecodeError as error:
        raise ProtobufInvalid(f"embedded JSON is broken: {error}") from None


def _write_raw(value: Any) -> Fields:
    try:
        return {"raw": as_go_writes(msgspec.json.encode(value))}
    except (TypeError, ValueError, RecursionError) as error:
        raise Unencodable(f"no JSON: {error}") from None


def _read_schema_or_list(fields: Fields) -> Any:
    return fields.get("jSONSchemas") or fields.get("schema")


def _write_schema_or_list(value: Any) -> Fields:
    return {"jSONSchemas": value} if isinstance(value, list) else {"schema": _checked(value, dict)}


def _read_schema_or_bool(fields: Fields) -> Any:
    return fields["schema"] if "schema" in fields else bool(fields.get("allows"))


def _write_schema_or_bool(value: Any) -> Fields:
    return {"allows": value} if isinstance(value, bool) else {"allows": True, "schema": _checked(value, dict)}


def _read_schema_or_names(fields: Fields) -> Any:
    return fields.get("property") or fields.get("schema")


def _write_schema_or_names(value: Any) -> Fields:
    return {"property": value} if isinstance(value, list) else {"schema": _checked(value, dict)}


def _read_items(fields: Fields) -> Any:
    return fields.get("items", [])


def _write_items(value: Any) -> Fields:
    return {"items": _checked(value, list)}


def _text(value: Any) -> str:
    return write_string(value).decode()


def _checked(value: Any, type: type) -> Any:
    if not isinstance(value, type):
        raise Unencodable(f"not a {type.__name__}: {value!r:.80}")
    return value


def _message(name: str, fields: str, union: Union | None) -> Message:
    """Zeros are kept, since the message as a whole is set or unset."""
    parts = enumerate((part.split(":") for part in fields.split()), 1)
    wire_fields = {number: WireField(number, part, ONE, _TYPES[type], keep_zero=True) for number, (part, type) in parts}
    return Message(name, wire_fields, union)


_TYPES = {**SCALARS, "raw": Leaf(DELIMITED, bytes, bytes)}
_RAW = _message("Raw", "raw:raw", Union(_read_raw, _write_raw))
_STRINGS = Message("Strings", {1: WireField(1, "items", LIST, SCALARS["str"])}, Union(_read_items, _write_items))
VALUES = {
    "time": _message("Time", "seconds:int64 nanos:int32", Union(_read_time, _write_time)),
    "microtime": _message("MicroTime", "seconds:int64 nanos:int32", Union(_read_micro_time, _write_micro_time)),
    "quantity": _message("Quantity", "string:str", Union(_read_quantity, _write_quantity)),
    "int-or-string": _message(
        "IntOrString", "type:int64 intVal:int32 strVal:str", Union(_read_int_or_string, _write_int_or_string)
    ),
    "strings": _STRINGS,
    "any": _RAW,
    "json": _RAW,
}
UNIONS = {
    "JSONSchemaPropsOrArray": Union(_read_schema_or_list, _write_schema_or_list),
    "JSONSchemaPropsOrBool": Union(_read_schema_or_bool, _write_schema_or_bool),
    "JSONSchemaPropsOrStringArray": Union(_read_schema_or_names, _write_schema_or_names),
}
"""Readers by the names of messages that the facts have."""

_TYPE_META = _message("TypeMeta", "apiVersion:str kind:str", None)
UNKNOWN = _message("runtime.Unknown", "typeMeta:str raw:raw contentEncoding:str contentType:str", None)
UNKNOWN.fields[1] = WireField(1, "typeMeta", INLINE, _TYPE_META)
"""The envelope of a body."""
