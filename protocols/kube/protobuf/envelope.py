"""The envelope of every body: four bytes of magic, then runtime.Unknown with the kind and the message.

And the frame of a watch event, which is a bare message behind its length.
"""

from typing import Any

from protocols.kube.meta import Object
from protocols.kube.protobuf.table import message_of
from protocols.kube.protobuf.types import (
    DELIMITED,
    FIXED64,
    VARINT,
    Field,
    Leaf,
    Message,
    ProtobufInvalid,
    Shape,
    Unencodable,
    Union,
    read_string,
    write_string,
)
from protocols.kube.protobuf.values import as_bytes, fields_of
from protocols.kube.protobuf.wire import read_span, read_tag, read_varint, skip
from protocols.wire.protobuf import delimited, number, varint

VALUE_LIMIT = 200_000
"""Fields in one body, known or not: two bytes can become an object of a hundred, and each costs time."""

DEPTH_LIMIT = 100
"""Messages within each other."""


def decode_message(message: Message, data: bytes) -> Object:
    """The object. Unknown fields are left out. Raises ProtobufInvalid.

    Only schemas of custom resources contain themselves; DEPTH_LIMIT bounds them.
    """
    out: Object = {}
    _Decoder(data).read(message, 0, len(data), out)
    return out


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = VALUE_LIMIT
        self._depth = 0

    def read(self, message: Message, at: int, end: int, out: Object) -> None:
        """Into `out`, which may hold an earlier part of the same message: singular fields are merged."""
        data, fields = self._data, message.fields
        self._depth += 1
        if self._depth > DEPTH_LIMIT:
            raise ProtobufInvalid(f"the message is nested more than {DEPTH_LIMIT} deep")
        while at < end:
            self._spend()
            number, wire, at = read_tag(data, at, end)
            field = fields.get(number)
            if field is None:
                at = skip(wire, data, at, end)
            elif wire == DELIMITED:
                start, at = read_span(data, at, end)
                self._delimited(field, start, at, out)
            elif wire == VARINT:
                value, at = read_varint(data, at, end)
                _put(field, _read_leaf(field, wire).read(value), out)
            elif wire == FIXED64:
                start, at = at, skip(wire, data, at, end)
                _put(field, _read_leaf(field, wire).read(data[start:at]), out)
            else:
                raise _mistyped(field, wire)
        self._depth -= 1

    def _delimited(self, field: Field, at: int, end: int, out: Object) -> None:
        if field.shape is Shape.MAP:
            self._entry(field, at, end, out.setdefault(field.name, {}))
        elif field.message is not None:
            self._nested(field, field.message, at, end, out)
        elif field.shape is Shape.LIST and field.leaf is not None and field.leaf.wire == VARINT:
            self._packed(field.leaf, at, end, out.setdefault(field.name, []))
        else:
            _put(field, _read_leaf(field, DELIMITED).read(self._data[at:end]), out)

    def _nested(self, field: Field, message: Message, at: int, end: int, out: Object) -> None:
        if message.union is not None:
            _put(field, self._union(message, message.union, at, end), out)
            return
        if field.shape is Shape.INLINE:
            inner = out
        elif field.shape is Shape.LIST:
            inner = {}
            out.setdefault(field.name, []).append(inner)
        else:
            inner = out.setdefault(field.name, {})
        self.read(message, at, end, inner)

    def _union(self, message: Message, union: Union, at: int, end: int) -> Any:
        parts: Object = {}
        self.read(message, at, end, parts)
        return union.read(parts)

    def _packed(self, leaf: Leaf, at: int, end: int, into: list[Any]) -> None:
        while at < end:
            self._spend()
            value, at = read_varint(self._data, at, end)
            into.append(leaf.read(value))

    def _entry(self, field: Field, at: int, end: int, into: Object) -> None:
        """A map entry is a message of key (1) and value (2), each of which may be missing."""
        key, value = "", _default(field)
        while at < end:
            self._spend()
            number, wire, at = read_tag(self._data, at, end)
            if number not in (1, 2):
                at = skip(wire, self._data, at, end)
                continue
            if wire != DELIMITED:
                raise _mistyped(field, wire)
            start, at = read_span(self._data, at, end)
            if number == 1:
                key = read_string(self._data[start:at])
            elif field.message is not None and field.message.union is not None:
                value = self._union(field.message, field.message.union, start, at)
            elif field.message is not None:
                value = {}
                self.read(field.message, start, at, value)
            else:
                value = _read_leaf(field, wire).read(self._data[start:at])
        into[key] = value

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise ProtobufInvalid(f"the message has more than {VALUE_LIMIT} values")


def _put(field: Field, value: Any, out: Object) -> None:
    if field.shape is Shape.LIST:
        out.setdefault(field.name, []).append(value)
    elif value is None or not (value or field.keep_zero or field.message is not None):
        out.pop(field.name, None)
    else:
        out[field.name] = value


def _read_leaf(field: Field, wire: int) -> Leaf:
    if field.leaf is None or field.leaf.wire != wire:
        raise _mistyped(field, wire)
    return field.leaf


def _default(field: Field) -> Any:
    return {} if field.leaf is None else _read_leaf(field, DELIMITED).read(b"")


def _mistyped(field: Field, wire: int) -> ProtobufInvalid:
    return ProtobufInvalid(f"wrong wire type {wire} for field {field.name}")


def encode_message(message: Message, obj: Any) -> bytes:
    """Fields in the order of the table, map entries in that of their keys. Raises Unencodable when `obj` is no dict."""
    if not isinstance(obj, dict):
        raise Unencodable(f"not an object: {obj!r:.80}")
    return b"".join([_field(field, obj) for field in message.fields.values()])


def _field(field: Field, obj: dict[str, Any]) -> bytes:
    if field.shape is Shape.INLINE and field.message is not None:
        return delimited(field.number, encode_message(field.message, obj))
    value = obj.get(field.name)
    if value is None:
        return b""
    if field.shape is Shape.LIST:
        return b"".join([_one(field, field.number, item) for item in value]) if isinstance(value, list) else b""
    if field.shape is Shape.MAP:
        return b"".join([_entry(field, *item) for item in sorted(value.items())]) if isinstance(value, dict) else b""
    return _one(field, field.number, value)


def _one(field: Field, at: int, value: Any) -> bytes:
    try:
        if field.message is not None:
            union = field.message.union
            return delimited(at, encode_message(field.message, value if union is None else union.write(value)))
        return _write_leaf(field.leaf, at, value) if field.leaf is not None else b""
    except Unencodable:
        return b""


def _write_leaf(leaf: Leaf, at: int, value: Any) -> bytes:
    written: Any = leaf.write(value)
    if leaf.wire == FIXED64:
        return varint(at << 3 | FIXED64) + bytes(written)
    return number(at, written) if leaf.wire == VARINT else delimited(at, written)


def _entry(field: Field, key: str, value: Any) -> bytes:
    written = _one(field, 2, value)
    return delimited(field.number, delimited(1, write_string(key)) + written) if written else b""


MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
_TYPE, _RAW, _ENCODING, _CONTENT_TYPE = 1, 2, 3, 4
"""Fields of runtime.Unknown."""


def decode_object(body: bytes) -> dict[str, Any]:
    """The object with apiVersion and kind. Raises ProtobufInvalid, KindUnknown."""
    if not body.startswith(MAGIC):
        raise ProtobufInvalid("the body does not begin with the prefix of Kubernetes protobuf")
    found = _last(body[len(MAGIC) :], (_TYPE, _RAW, _ENCODING))
    if found.get(_ENCODING):
        raise ProtobufInvalid("the body has a content encoding inside the envelope")
    api_version, kind = _type(found.get(_TYPE, b""))
    message = message_of(api_version, kind)
    return {"kind": kind, "apiVersion": api_version, **decode_message(message, found.get(_RAW, b""))}


def encode_object(obj: dict[str, Any]) -> bytes:
    """With the envelope; fields that the message has no place for are left out. Raises KindUnknown."""
    api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    raw = encode_message(message_of(api_version, kind), obj)
    type_meta = delimited(1, write_string(api_version)) + delimited(2, write_string(kind))
    tail = delimited(_ENCODING, b"") + delimited(_CONTENT_TYPE, b"")
    return MAGIC + delimited(_TYPE, type_meta) + delimited(_RAW, raw) + tail


def event_frame(kind: str, body: bytes) -> bytes:
    """One event of a watch; `body` is an object with its envelope."""
    event = delimited(1, kind.encode()) + delimited(2, delimited(1, body))
    return len(event).to_bytes(4, "big") + event


def _type(data: bytes) -> tuple[str, str]:
    found = _last(data, (1, 2))
    api_version, kind = read_string(found.get(1, b"")), read_string(found.get(2, b""))
    if not kind:
        raise ProtobufInvalid("the envelope does not name the kind of the object")
    return api_version, kind


def _last(data: bytes, numbers: tuple[int, ...]) -> dict[int, bytes]:
    return {number: as_bytes(value) for number, value in fields_of(data) if number in numbers}
