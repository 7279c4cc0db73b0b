"""Read request bodies: bounded, decompressed, decoded beside the loop when they are long."""

import zlib
from collections.abc import Callable
from typing import Any, TypeVar

from aiohttp import hdrs, web

from actors.apiserver.api.encoding.decode import decode_object, media_type
from actors.apiserver.api.errors import BadRequest, BodyTooLarge
from actors.apiserver.api.workers import offload

BODY_LIMIT = 3 * 1024 * 1024
YAML_FACTOR = 4
"""A byte of YAML is as much work as so many of JSON: libyaml takes a tenth of a second for half a megabyte."""
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
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
    """Return `read(body)`, off the event loop if the body is large. `read` may be called twice."""
    slow = "yaml" in media and raw.lstrip()[:1] != b"{"
    return await offload(len(raw) * YAML_FACTOR if slow else len(raw), read)


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(f"Request entity too large: limit is {BODY_LIMIT}")
