"""Resource requests as endpoints receive them, and their bodies: bounded, decompressed, decoded.

Large bodies are decoded in a worker, beside the event loop.
"""

import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from aiohttp import hdrs, web

from actors.apiserver.api.encoding.decode import decode_object, media_type
from actors.apiserver.api.encoding.negotiate import Form
from actors.apiserver.api.errors import BadRequest, BodyTooLarge
from actors.apiserver.api.request.query import ListOptions, WriteOptions, write_options
from actors.apiserver.api.request.selection import Selection
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.user import User
from actors.apiserver.api.request.workers import offload

BODY_LIMIT = 3 * 1024 * 1024
YAML_FACTOR = 4
"""Cost of decoding a byte of YAML, in bytes of JSON: libyaml takes a tenth of a second for half a megabyte."""
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
T = TypeVar("T")


class Request(msgspec.Struct, frozen=True):
    """A resource request that has passed authorization. `options` and `wanted` only for verbs on collections."""

    http: web.BaseRequest
    user: User
    target: Target
    query: Mapping[str, str]
    dry_runs: list[str]
    form: Form
    options: ListOptions
    wanted: Selection
    expires: float = math.inf
    """Wall-clock time at which the client's credential ends: no watch or stream lasts longer."""
    began: int = 0
    """Time of the trace at which it passed authentication."""

    def write_options(self, kind: str) -> WriteOptions:
        """Return the options of a write, of this kind. Raises Invalid."""
        return write_options(self.query, self.dry_runs, self.http.headers.get("User-Agent", ""), kind)


async def read_object(request: web.BaseRequest, kind: str, empty: bool = False) -> dict[str, Any]:
    """Return the object of the body, which should be a `kind`; with `empty`, {} if there is none or null."""
    raw, content_type = await read_body(request), request.headers.get("Content-Type", "")
    if empty and raw.strip() in (b"", b"null"):
        return {}
    media = media_type(content_type)
    return await offload_decoding(raw, media, lambda: decode_object(raw, media, kind))


async def offload_decoding(raw: bytes, media: str, decode: Callable[[], T]) -> T:
    """Return `decode()`, off the event loop if the body is large. `decode` may be called twice."""
    # client-go declares the JSON of an apply patch as YAML; the JSON decoder reads it.
    slow = "yaml" in media and raw.lstrip()[:1] != b"{"
    return await offload(len(raw) * YAML_FACTOR if slow else len(raw), decode)


async def read_body(request: web.BaseRequest) -> bytes:
    """Return the body, at most BODY_LIMIT bytes, also after decompression. Raises BadRequest, BodyTooLarge."""
    headers = request.headers
    try:
        if request.content.is_eof() and hdrs.EXPECT not in headers:
            raw = request.content.read_nowait()
        else:
            raw = await _read_chunks(request)
    except web.RequestPayloadError as error:
        raise BadRequest(f"the body of the request cannot be read: {error}") from None
    if len(raw) > BODY_LIMIT:
        raise _too_large()
    encoding = headers.get(hdrs.CONTENT_ENCODING)
    return _decompress(raw, encoding.strip().lower()) if encoding else raw


async def _read_chunks(request: web.BaseRequest) -> bytes:
    """Read a body that has not arrived completely. Raises BodyTooLarge, RequestPayloadError."""
    if (request.content_length or 0) > BODY_LIMIT:
        raise _too_large()
    await send_continue(request)
    chunks, size = [], 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > BODY_LIMIT:
            raise _too_large()
        chunks.append(chunk)
    return b"".join(chunks)


async def send_continue(request: web.BaseRequest) -> None:
    """Ask for the body, if the client waits for that."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version >= (1, 1):
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # aiohttp takes a response for begun if bytes were written


def _decompress(body: bytes, encoding: str) -> bytes:
    if encoding in ("", "identity") or not body:
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise BadRequest(
            f'the body of the request has the unknown Content-Encoding "{encoding:.64}": send gzip or none'
        )
    reader = zlib.decompressobj(GZIP_OR_ZLIB)
    try:
        content = reader.decompress(body, BODY_LIMIT + 1)  # never more: a small body may expand a thousandfold
    except zlib.error as error:
        raise BadRequest(f"the body of the request cannot be decompressed: {error}") from None
    if len(content) > BODY_LIMIT:
        raise _too_large()
    if not reader.eof:
        raise BadRequest("the body of the request cannot be decompressed: it ends too early")
    return content


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(f"Request entity too large: limit is {BODY_LIMIT}")
