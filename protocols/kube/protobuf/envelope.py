"""The envelope of every body: four bytes of magic, then runtime.Unknown with the kind and the message.

And the frame of a watch event, which is a bare message behind its length.
"""

from collections.abc import Iterable
from typing import Any

from protocols.kube.meta import Object
from protocols.kube.protobuf.table import message_of
from protocols.kube.protobuf.types import INLINE, LIST, MAP, ONE, Leaf, Message, Unencodable, WireField
from protocols.kube.protobuf.values import UNKNOWN
from protocols.kube.protobuf.wire import DELIMITED, VARINT, ProtobufInvalid, read_value, read_varint, skip
from protocols.wire.protobuf import delimited, varint

VALUE_LIMIT = 200_000
"""Fields in one body, known or not: two bytes can become an object of a hundred, and each costs time."""

DEPTH_LIMIT = 100
"""Messages within each other."""
PIECE_BYTES = 256 * 1024
"""Least size of a piece of a long list, except for the last one."""


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
            self._left -= 1
            if self._left < 0:
                raise _too_many()
            tag = data[at]
            at += 1
            if tag > 0x7F:
                tag, at = read_varint(data, at - 1, end)
            field = fields.get(tag >> 3)
            if field is None:
                at = skip(tag, data, at, end)
                continue
            start, at = read_value(tag & 7, data, at, end)
            if tag & 7 == field.wire:
                self._field(field, start, at, out)
            elif tag & 7 == DELIMITED and field.wire == VARINT and field.shape is LIST:
                self._packed(field, start, at, out)
            else:
                raise ProtobufInvalid(f"wrong wire type {tag & 7} for field {field.name} of {message.name}")
        self._depth -= 1

    def _field(self, field: WireField, start: int, stop: int, out: Object) -> None:
        name, shape = field.name, field.shape
        if field.is_merged:
            self.read(field.type, start, stop, out if shape is INLINE else out.setdefault(name, {}))
            return
        value = self._value(field.type, start, stop)
        if shape is ONE:
            if value or (value is not None and field.keep_zero):
                out[name] = value
            else:
                out.pop(name, None)
        elif shape is LIST:
            out.setdefault(name, []).append(value)
        else:
            self._entry(field, value, out.setdefault(name, {}))

    def _value(self, type: Leaf | Message, start: int, stop: int) -> Any:
        if isinstance(type, Leaf):
            return type.read(start if type.wire == VARINT else self._data[start:stop])
        out: Object = {}
        self.read(type, start, stop, out)
        return out if type.union is None else type.union.read(out)

    def _entry(self, field: WireField, entry: Object, into: Object) -> None:
        """Key and value may be missing; then they are the zero values of their types."""
        if "value" not in entry:
            entry["value"] = self._value(field.type.fields[2].type, 0, 0)
        into[entry.get("key", "")] = entry["value"]

    def _packed(self, field: WireField, at: int, end: int, out: Object) -> None:
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise _too_many()
            value, at = read_varint(self._data, at, end)
            self._field(field, value, at, out)


def _too_many() -> ProtobufInvalid:
    return ProtobufInvalid(f"the message has more than {VALUE_LIMIT} values")


def encode_message(message: Message, obj: Any) -> bytes:
    """Encode fields in the order of the table, map entries in that of their keys.

    Raises Unencodable if `obj` is no dict.
    """
    if not isinstance(obj, dict):
        raise Unencodable(f"not an object: {obj!r:.80}")
    parts: list[bytes] = []
    for field in message.fields.values():
        value = obj if field.shape is INLINE else obj.get(field.name)
        if value is None:
            continue
        if field.shape is LIST:
            parts += [_one(field, item) for item in value] if isinstance(value, list) else ()
        elif field.shape is MAP:
            parts += [_entry(field, *item) for item in sorted(value.items())] if isinstance(value, dict) else ()
        else:
            parts.append(_one(field, value))
    return b"".join(parts)


def _one(field: WireField, value: Any) -> bytes:
    """Empty for a value that the field has no place for."""
    type = field.type
    raw: Any
    try:
        if isinstance(type, Leaf):
            raw = type.write(value)
        else:
            raw = encode_message(type, value if type.union is None else type.union.write(value))
    except Unencodable:
        return b""
    if field.wire == DELIMITED:
        raw = varint(len(raw)) + raw
    elif field.wire == VARINT:
        raw = varint(raw)
    written: bytes = field.tag + raw
    return written


def _entry(field: WireField, key: str, value: Any) -> bytes:
    name, element = field.type.fields.values()
    written = _one(element, value)
    if not written:
        return b""
    raw = _one(name, key) + written
    return field.tag + varint(len(raw)) + raw


MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"


def decode_object(body: bytes) -> dict[str, Any]:
    """Decode an object with apiVersion and kind. Raises ProtobufInvalid, KindUnknown."""
    if not body.startswith(MAGIC):
        raise ProtobufInvalid("the body does not begin with the prefix of Kubernetes protobuf")
    envelope = decode_message(UNKNOWN, body[len(MAGIC) :])
    if envelope.get("contentEncoding"):
        raise ProtobufInvalid("the body has a content encoding inside the envelope")
    api_version, kind = envelope.get("apiVersion", ""), envelope.get("kind", "")
    if not kind:
        raise ProtobufInvalid("the envelope does not name the kind of the object")
    return {
        "kind": kind,
        "apiVersion": api_version,
        **decode_message(message_of(api_version, kind), envelope.get("raw", b"")),
    }


def encode_object(obj: dict[str, Any]) -> bytes:
    """Encode an object with its envelope, without fields that the message lacks. Raises KindUnknown."""
    api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    raw = encode_message(message_of(api_version, kind), obj)
    envelope = {"apiVersion": api_version, "kind": kind, "raw": raw, "contentEncoding": "", "contentType": ""}
    return MAGIC + encode_message(UNKNOWN, envelope)


def encode_list(head: dict[str, Any], name: str, items: Iterable[Any]) -> list[bytes]:
    """Encode a list with its envelope: the body in pieces of about PIECE_BYTES, as its length comes first.

    `items` are the elements of the field `name`, which `head` lacks; each is encoded before the next one is taken.
    Raises KindUnknown.
    """
    message = message_of(head["apiVersion"], head["kind"])
    field = next(declared for declared in message.fields.values() if declared.name == name)
    pieces, batch, size = list[bytes](), [encode_message(message, head)], 0
    for item in items:
        batch.append(_one(field, item))
        size += len(batch[-1])
        if size >= PIECE_BYTES:
            pieces.append(b"".join(batch))
            batch, size = [], 0
    pieces.append(b"".join(batch))
    kind, raw, *rest = UNKNOWN.fields.values()
    pieces[0] = b"".join((MAGIC, _one(kind, head), raw.tag, varint(sum(map(len, pieces))), pieces[0]))
    pieces[-1] += b"".join(_one(other, "") for other in rest)
    return pieces


def event_frame(kind: str, body: bytes) -> bytes:
    """One event of a watch; `body` is an object with its envelope."""
    event = delimited(1, kind.encode()) + delimited(2, delimited(1, body))
    return len(event).to_bytes(4, "big") + event
