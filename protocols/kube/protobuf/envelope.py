"""The envelope of every body: four bytes of magic, then runtime.Unknown with the kind and the message. And the frame of
a watch event, which is a bare message behind its length."""

from typing import Any

from protocols.kube.protobuf.decode import decode_message
from protocols.kube.protobuf.encode import encode_message
from protocols.kube.protobuf.errors import ProtobufInvalid
from protocols.kube.protobuf.scalars import read_string, write_string
from protocols.kube.protobuf.table import message_of
from protocols.kube.protobuf.values import as_bytes, fields_of
from protocols.kube.protobuf.wire import delimited

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
