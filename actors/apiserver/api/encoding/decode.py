"""Decode objects and patches from JSON, YAML or Kubernetes protobuf."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from actors.apiserver.api.errors import BadRequest, UnsupportedMediaType
from protocols.kube import protobuf
from protocols.kube.errors import BodyInvalid
from protocols.kube.jsons import DEPTH_LIMIT, check_depth, read_json

if TYPE_CHECKING:
    from protocols.kube.yaml_text import Document

TEXTUAL = "application/json, application/yaml"
ACCEPTED = f"{TEXTUAL}, {protobuf.MEDIA_TYPE}"
JSON_TYPES = ("", "application/json")
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml")
SHOWN = 30
"""Bytes of an unreadable body that are shown in the error."""
SHALLOW = 2 * DEPTH_LIMIT
"""Shorter JSON cannot exceed the depth limit, since each level takes two bytes."""
T = TypeVar("T")


def media_type(content_type: str) -> str:
    """Return the media type of a Content-Type header, without parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def decode_object(body: bytes, media: str, kind: str = "object") -> dict[str, Any]:
    """Decode an object by its media type. Errors name its expected `kind`.

    Raises BadRequest, UnsupportedMediaType.
    """
    if media in JSON_TYPES:
        return as_object(decode_json(body, kind))
    if media in YAML_TYPES:
        return as_object(decode_yaml(body, kind))
    if media == protobuf.MEDIA_TYPE:
        return decode_protobuf(body)
    raise UnsupportedMediaType(ACCEPTED)


def decode_protobuf(body: bytes) -> dict[str, Any]:
    """Decode an object in Kubernetes protobuf. Raises BadRequest; UnsupportedMediaType for an unknown kind."""
    try:
        return _shallow(protobuf.decode_object(body))
    except protobuf.ProtobufInvalid as error:
        raise BadRequest(f"the object provided is unrecognized (must be Kubernetes protobuf): {error}") from None
    except RecursionError:
        raise BadRequest("the object provided is nested too deeply") from None
    except protobuf.KindUnknown:
        raise UnsupportedMediaType(TEXTUAL) from None


def decode_json(body: bytes, kind: str = "") -> Any:
    """Decode JSON: an object of `kind`, or a patch if it is empty. Raises BadRequest."""
    try:
        value = read_json(body)
    except msgspec.DecodeError as error:
        raise _unreadable(body, kind, error) from None
    if len(body) <= SHALLOW or body.count(b"{") + body.count(b"[") <= DEPTH_LIMIT:
        return value
    return _shallow(value)


def decode_yaml(body: bytes, kind: str = "") -> Any:
    """Decode YAML, or JSON, which kubectl sends with YAML's media type. Raises BadRequest."""
    if body.lstrip()[:1] == b"{":
        with suppress(msgspec.DecodeError):  # braces may begin YAML, too
            return _shallow(read_json(body))
    return read_yaml_body(body, kind).value


def read_yaml_body(body: bytes, kind: str = "") -> "Document":
    """Raises BadRequest."""
    import yaml  # slow to load, and kubectl sends JSON

    from protocols.kube.yaml_text import read_yaml

    try:
        return read_yaml(body.decode())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _unreadable(body, kind, error) from None


def as_object(value: Any) -> dict[str, Any]:
    """Return a decoded value that is a JSON object. Raises BadRequest for any other."""
    if not isinstance(value, dict):
        raise BadRequest("the object provided is unrecognized: it must be a JSON object")
    return value


def _shallow(value: T) -> T:
    """Check the depth of a value: later code recurses. Raises BadRequest."""
    try:
        check_depth(value)
    except BodyInvalid as error:
        raise BadRequest(str(error)) from None
    return value


def _unreadable(body: bytes, kind: str, error: Exception) -> BadRequest:
    why = str(error).replace("\n", " ")
    if not kind:
        return BadRequest(f"error decoding patch: {why}")
    subject = f"the object provided is unrecognized (must be of type {kind})"
    return BadRequest(f"{subject}: couldn't get version/kind; json parse error: {why} ({_summary(body)})")


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    start = body[:SHOWN]
    shown = start.decode(errors="replace") if body.startswith(b"{") else start.hex()
    return f"{shown} ..." if len(body) > SHOWN else shown
