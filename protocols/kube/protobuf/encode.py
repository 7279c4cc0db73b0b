"""From the JSON form of an object to the bytes of its message.

What the message has no place for, a field unknown or a value of the wrong type, is left out: one bad field of one
object does not take the rest of it, or a whole list, from the reader.
"""

from typing import Any

from protocols.kube.protobuf.errors import Unencodable
from protocols.kube.protobuf.scalars import write_string
from protocols.kube.protobuf.types import VARINT, Field, Leaf, Message, Shape
from protocols.kube.protobuf.wire import delimited, number


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
            return delimited(at, encode_message(field.message, value))
        return _leaf(field.leaf, at, value) if field.leaf is not None else b""
    except Unencodable:
        return b""


def _leaf(leaf: Leaf, at: int, value: Any) -> bytes:
    written = leaf.write(value)
    return number(at, written) if leaf.wire == VARINT else delimited(at, written)


def _entry(field: Field, key: str, value: Any) -> bytes:
    written = _one(field, 2, value)
    return delimited(field.number, delimited(1, write_string(key)) + written) if written else b""
