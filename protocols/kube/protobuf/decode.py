"""From the bytes of a message to the JSON form of the object, as Go would write it."""

from typing import Any

from protocols.kube.protobuf.errors import ProtobufInvalid
from protocols.kube.protobuf.scalars import read_string
from protocols.kube.protobuf.types import DELIMITED, VARINT, Field, Leaf, Message, Shape
from protocols.kube.protobuf.wire import read_span, read_tag, read_varint, skip

Obj = dict[str, Any]
VALUE_LIMIT = 200_000
"""Fields in one body, known or not: two bytes can become an object of a hundred, and each costs time."""


def decode_message(message: Message, data: bytes) -> Obj:
    """The object. Unknown fields are left out. Raises ProtobufInvalid.

    Messages of the table do not contain themselves, so their depth is bounded by the table (a test says so).
    """
    out: Obj = {}
    _Decoder(data).read(message, 0, len(data), out)
    return out


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = VALUE_LIMIT

    def read(self, message: Message, at: int, end: int, out: Obj) -> None:
        """Into `out`, which may hold an earlier part of the same message: singular fields are merged."""
        data, fields = self._data, message.fields
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
                _put(field, _leaf(field, wire).read(value), out)
            else:
                raise _mistyped(field, wire)

    def _delimited(self, field: Field, at: int, end: int, out: Obj) -> None:
        if field.shape is Shape.MAP:
            self._entry(field, at, end, out.setdefault(field.name, {}))
        elif field.message is not None:
            self._nested(field, field.message, at, end, out)
        elif field.shape is Shape.LIST and field.leaf is not None and field.leaf.wire == VARINT:
            self._packed(field.leaf, at, end, out.setdefault(field.name, []))
        else:
            _put(field, _leaf(field, DELIMITED).read(self._data[at:end]), out)

    def _nested(self, field: Field, message: Message, at: int, end: int, out: Obj) -> None:
        if field.shape is Shape.INLINE:
            inner = out
        elif field.shape is Shape.LIST:
            inner = {}
            out.setdefault(field.name, []).append(inner)
        else:
            inner = out.setdefault(field.name, {})
        self.read(message, at, end, inner)

    def _packed(self, leaf: Leaf, at: int, end: int, into: list[Any]) -> None:
        while at < end:
            self._spend()
            value, at = read_varint(self._data, at, end)
            into.append(leaf.read(value))

    def _entry(self, field: Field, at: int, end: int, into: Obj) -> None:
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
            elif field.message is not None:
                value = {}
                self.read(field.message, start, at, value)
            else:
                value = _leaf(field, wire).read(self._data[start:at])
        into[key] = value

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise ProtobufInvalid(f"the message has more than {VALUE_LIMIT} values")


def _put(field: Field, value: Any, out: Obj) -> None:
    if field.shape is Shape.LIST:
        out.setdefault(field.name, []).append(value)
    elif value is None or not (value or field.keep_zero):
        out.pop(field.name, None)
    else:
        out[field.name] = value


def _leaf(field: Field, wire: int) -> Leaf:
    if field.leaf is None or field.leaf.wire != wire:
        raise _mistyped(field, wire)
    return field.leaf


def _default(field: Field) -> Any:
    return {} if field.leaf is None else _leaf(field, DELIMITED).read(b"")


def _mistyped(field: Field, wire: int) -> ProtobufInvalid:
    return ProtobufInvalid(f"wrong wire type {wire} for field {field.name}")
