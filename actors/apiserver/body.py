"""Request bodies: bounded, read once, JSON, YAML or Kubernetes protobuf, always an object."""

from typing import Any

import msgspec
import yaml
from aiohttp import web
from aiohttp.http_exceptions import ContentEncodingError

from actors.apiserver.errors import BadRequest, BodyTooLarge, UnsupportedMediaType
from protocols.kube import protobuf

BODY_LIMIT = 3 * 1024 * 1024
TEXTUAL = "application/json, application/yaml"
ACCEPTED = f"{TEXTUAL}, {protobuf.MEDIA_TYPE}"
JSON_TYPES = ("", "application/json")
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml")


async def read_body(request: web.BaseRequest) -> bytes:
    """The whole body, at most BODY_LIMIT bytes after decompression."""
    if (request.content_length or 0) > BODY_LIMIT:
        raise _too_large()
    chunks, size = [], 0
    try:
        async for chunk in request.content.iter_any():
            size += len(chunk)
            if size > BODY_LIMIT:
                raise _too_large()
            chunks.append(chunk)
    except (ContentEncodingError, web.RequestPayloadError) as error:
        raise BadRequest(f"the body of the request cannot be read: {error}") from None
    return b"".join(chunks)


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decode_object(body: bytes, content_type: str) -> dict[str, Any]:
    """An object from JSON, YAML or protobuf by content type. Raises BadRequest, UnsupportedMediaType."""
    media = media_type(content_type)
    if media in JSON_TYPES:
        return as_object(decode_json(body))
    if media in YAML_TYPES:
        return as_object(decode_yaml(body))
    if media == protobuf.MEDIA_TYPE:
        return decode_protobuf(body)
    raise UnsupportedMediaType(ACCEPTED)


def decode_protobuf(body: bytes) -> dict[str, Any]:
    try:
        return protobuf.decode_object(body)
    except protobuf.ProtobufInvalid as error:
        raise BadRequest(f"the object provided is unrecognized (must be Kubernetes protobuf): {error}") from None
    except protobuf.KindUnknown:
        raise UnsupportedMediaType(TEXTUAL) from None


def decode_json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the object provided is unrecognized (must be JSON or YAML): {error}") from None


def decode_yaml(body: bytes) -> Any:
    """YAML with the safe loader, aliases refused (they can explode) and every key a string."""
    try:
        text = body.decode()
        for token in yaml.scan(text, Loader=_LOADER):
            if isinstance(token, yaml.AliasToken):
                raise BadRequest("the object provided uses YAML aliases, which are not supported")
        loaded = yaml.load(text, Loader=_LOADER)  # a SafeLoader: builds plain values only
        return msgspec.json.decode(msgspec.json.encode(loaded))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, TypeError, ValueError) as error:
        summary = str(error).replace("\n", " ")
        raise BadRequest(f"the object provided is unrecognized (must be JSON or YAML): {summary}") from None


def as_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRequest("the object provided is unrecognized: it must be a JSON object")
    return value


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(f"Request entity too large: limit is {BODY_LIMIT}")


class _LOADER(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time: C if built in
    """The safe loader without timestamps: a date in YAML stays the string JSON would have."""


_LOADER.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
