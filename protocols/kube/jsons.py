"""JSON values: decode request bodies and stored values with proper errors, and compare without taking true for 1."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from protocols.kube.errors import BodyInvalid
from protocols.kube.meta import Object

DEPTH_LIMIT = 200
"""Levels of nesting accepted from outside; no API object comes near."""


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("Number out of range")
    return value


_read = msgspec.json.Decoder(float_hook=_float).decode
_read_object = msgspec.json.Decoder(Object, float_hook=_float).decode
T = TypeVar("T")
Text = bytes | bytearray | memoryview | str


class JsonTooDeep(msgspec.DecodeError):
    """Raised for JSON that is nested too deeply to be read."""


def read_json(text: Text) -> Any:
    """Return any JSON value; raises msgspec.DecodeError. The one reader of JSON whose fields are not known.

    msgspec.json.decode takes up to 90 us for a number such as 1e-327, or 40 seconds for a body full of them, in one
    call that nothing can interrupt; Python's own float takes one.
    """
    return _checked(_read, text)


def read_json_object(text: Text) -> Object:
    """Return a JSON object as `read_json` does; raises msgspec.ValidationError for any other value."""
    return _checked(_read_object, text)


def _checked(read: Callable[[Text], T], text: Text) -> T:
    try:
        return read(text)
    except RecursionError as error:
        raise JsonTooDeep(str(error)) from None
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(str(error)) from None


_ESCAPED = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))


def as_go_writes(raw: bytes) -> bytes:
    """Return JSON with those characters of texts escaped that Go escapes, for peers that compare bytes."""
    for character, escaped in _ESCAPED:
        if character in raw:
            raw = raw.replace(character, escaped)
    return raw


def decode_body(body: bytes) -> Any:
    """Return the JSON value of a request body; raises BodyInvalid."""
    try:
        value = read_json(body)
    except JsonTooDeep:
        raise BodyInvalid("the request body is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise BodyInvalid(f"the request body is not valid JSON: {error}") from None
    check_depth(value)
    return value


PROTOBUF = b"k8s\0"


def stored_json(value: bytes) -> bytes:
    """Return the JSON form of a value in the store; bytes that cannot be converted are returned as they are.

    A kube-apiserver that shares the store writes protobuf.
    """
    if not value.startswith(PROTOBUF):
        return value
    from protocols.kube import protobuf  # loaded by those stores only that hold it

    try:
        return msgspec.json.encode(protobuf.decode_object(value))
    except (protobuf.ProtobufInvalid, protobuf.KindUnknown):
        return value


def check_depth(value: Any) -> None:
    """Refuse (400) what is nested deeper than DEPTH_LIMIT, so recursive code behind it is safe."""
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return
    raise BodyInvalid(f"the request body is nested more than {DEPTH_LIMIT} levels deep")


def _children(value: Any) -> Any:
    if isinstance(value, dict):
        return [inner for inner in value.values() if isinstance(inner, (dict, list))]
    if isinstance(value, list):
        return [inner for inner in value if isinstance(inner, (dict, list))]
    return ()


def same_json(left: Any, right: Any) -> bool:
    """Compare JSON values: 1 equals 1.0, but true does not equal 1."""
    return bool(left == right) and _same_booleans(left, right)


def _same_booleans(left: Any, right: Any) -> bool:
    """Compare values that Python calls equal."""
    if isinstance(left, dict):
        return all(_same_booleans(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return all(map(_same_booleans, left, right))
    return isinstance(left, bool) == isinstance(right, bool)
