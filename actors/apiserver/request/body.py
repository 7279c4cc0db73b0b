"""Request bodies: bounded, read once, JSON, YAML or Kubernetes protobuf, always an object."""

import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
import yaml
from aiohttp import hdrs, web

from actors.apiserver.errors.answers import BadRequest, BodyTooLarge, UnsupportedMediaType
from actors.apiserver.request.workers import beside
from actors.apiserver.request.yaml_text import Document, read_yaml
from protocols.kube import protobuf
from protocols.kube.errors import BodyInvalid
from protocols.kube.jsons import DEPTH_LIMIT, check_depth, read_json

BODY_LIMIT = 3 * 1024 * 1024
YAML_FACTOR = 4
"""A byte of YAML is as much work as so many of JSON: libyaml takes a tenth of a second for half a megabyte."""
TEXTUAL = "application/json, application/yaml"
ACCEPTED = f"{TEXTUAL}, {protobuf.MEDIA_TYPE}"
JSON_TYPES = ("", "application/json")
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml")
SHOWN = 30
"""Bytes of an unreadable body that its refusal shows."""
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
SHALLOW = 2 * DEPTH_LIMIT
"""Bytes of JSON that cannot be nested too deeply: each level takes two."""
T = TypeVar("T")


async def read_body(request: web.BaseRequest) -> bytes:
    """The whole body, at most BODY_LIMIT bytes, also after decompression. Raises BadRequest, BodyTooLarge."""
    headers = request.headers
    try:
        if request.content.is_eof() and hdrs.EXPECT not in headers:
            raw = request.content.read_nowait()
        else:
            raw = await _parts(request)
    except web.RequestPayloadError as error:
        raise BadRequest(f"the body of the request cannot be read: {error}") from None
    if len(raw) > BODY_LIMIT:
        raise _too_large()
    encoding = headers.get(hdrs.CONTENT_ENCODING)
    return _decompressed(raw, encoding.strip().lower()) if encoding else raw


async def _parts(request: web.BaseRequest) -> bytes:
    """As they arrive. Raises BodyTooLarge, and RequestPayloadError for what is no body."""
    if (request.content_length or 0) > BODY_LIMIT:
        raise _too_large()
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version >= (1, 1):
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    chunks, size = [], 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > BODY_LIMIT:
            raise _too_large()
        chunks.append(chunk)
    return b"".join(chunks)


def _decompressed(body: bytes, encoding: str) -> bytes:
    if encoding in ("", "identity") or not body:
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise BadRequest(
            f'the body of the request has the unknown Content-Encoding "{encoding:.64}": send gzip or none'
        )
    reader = zlib.decompressobj(GZIP_OR_ZLIB)
    try:
        found = reader.decompress(body, BODY_LIMIT + 1)
    except zlib.error as error:
        raise BadRequest(f"the body of the request cannot be decompressed: {error}") from None
    if len(found) > BODY_LIMIT:
        raise _too_large()
    if not reader.eof:
        raise BadRequest("the body of the request cannot be decompressed: it ends too early")
    return found


async def read_object(request: web.BaseRequest, kind: str, empty: bool = False) -> dict[str, Any]:
    """The object sent, which should be a `kind`; {} for no body where that is allowed."""
    raw, content_type = await read_body(request), request.headers.get("Content-Type", "")
    if empty and not raw.strip():
        return {}
    media = media_type(content_type)
    return await understood(raw, media, lambda: decode_object(raw, media, kind))


async def understood(raw: bytes, media: str, read: Callable[[], T]) -> T:
    """What `read` makes of the body, without holding up the loop. It may be called twice."""
    slow = "yaml" in media and raw.lstrip()[:1] != b"{"
    return await beside(len(raw) * YAML_FACTOR if slow else len(raw), read)


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decode_object(body: bytes, media: str, kind: str = "object") -> dict[str, Any]:
    """An object from JSON, YAML or protobuf by media type; `kind`, which it should be, is named in refusals.
    Raises BadRequest, UnsupportedMediaType."""
    if media in JSON_TYPES:
        return as_object(decode_json(body, kind))
    if media in YAML_TYPES:
        return as_object(decode_yaml(body, kind))
    if media == protobuf.MEDIA_TYPE:
        return decode_protobuf(body)
    raise UnsupportedMediaType(ACCEPTED)


def decode_protobuf(body: bytes) -> dict[str, Any]:
    try:
        return _shallow(protobuf.decode_object(body))
    except protobuf.ProtobufInvalid as error:
        raise BadRequest(f"the object provided is unrecognized (must be Kubernetes protobuf): {error}") from None
    except RecursionError:
        raise BadRequest("the object provided is nested too deeply") from None
    except protobuf.KindUnknown:
        raise UnsupportedMediaType(TEXTUAL) from None


def decode_json(body: bytes, kind: str = "") -> Any:
    """Without a `kind`, a patch. Raises BadRequest."""
    try:
        value = read_json(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(body, kind, error) from None
    if len(body) <= SHALLOW or body.count(b"{") + body.count(b"[") <= DEPTH_LIMIT:
        return value
    return _shallow(value)


def decode_yaml(body: bytes, kind: str = "") -> Any:
    """YAML, or JSON, which kubectl sends under YAML's name. Raises BadRequest."""
    if body.lstrip()[:1] == b"{":
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # braces may begin YAML, too
            return _shallow(read_json(body))
    return read_yaml_body(body, kind).value


def read_yaml_body(body: bytes, kind: str = "") -> Document:
    """Raises BadRequest."""
    try:
        return read_yaml(body.decode())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _unreadable(body, kind, error) from None


def as_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRequest("the object provided is unrecognized: it must be a JSON object")
    return value


def _shallow(value: T) -> T:
    """Code behind this recurses. Raises BadRequest."""
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


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(f"Request entity too large: limit is {BODY_LIMIT}")
