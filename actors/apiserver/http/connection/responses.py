"""Responses of endpoints: short ones in one piece, long ones in parts, compressed on request."""

import asyncio
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from msgspec.structs import replace
from multidict import CIMultiDict

from actors.apiserver.api.encoding.negotiate import PLAIN, Form, Headers
from actors.apiserver.api.encoding.render import dump
from actors.apiserver.api.request.workers import offload
from actors.apiserver.http.connection.unread import Unread, give_back
from protocols.kube.meta import Object

GZIP_FROM = 128 * 1024
"""Bytes above which a response is compressed for clients that accept it; upstream's bound."""
GZIP_LEVEL = 4
GZIP_WINDOW = 16 + zlib.MAX_WBITS
WARNING_LIMIT = 1024
WARNINGS_LIMIT, WARNINGS_COUNT = 4096, 50
"""Characters and headers of all warnings of a response: some clients take no more than 100 headers."""
PRETTY_AGENTS = ("curl", "Wget", "Mozilla/5.0")
MANY_VALUES, DEEP = 4096, 24
"""Values and levels beyond which a response is not indented."""
TEXT, OTHER_BYTES = re.compile(rb'"[^"]*"'), bytes({*range(256)} - {*b'[]{}"'})
PRIVATE = ("Cache-Control", "no-cache, private")
"""Sent unless a response says something else: all of them depend on the client's rights."""
AUDIT_ID = web.RequestKey("audit_id", str)
"""Names the line of a request in the audit log, and is sent with its response."""
GO_TRUE = ("1", "t", "T", "TRUE", "true", "True")
"""Values that Go's strconv.ParseBool reads as true."""


class Reply(msgspec.Struct, frozen=True):
    """A response as endpoints return it, before it is known how it is written."""

    body: bytes
    status: int = 200
    media_type: str = "application/json"
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    warnings: Sequence[str] = ()
    rest: Iterator[bytes] | None = None
    """Parts that follow `body`, made while they are written."""

    def response(self) -> "Response":
        """Return the reply itself if it is short, else a response that is written in parts."""
        if self.rest is None and len(self.body) <= GZIP_FROM:
            return self
        parts = (self.body,) if self.rest is None else chain((self.body,), self.rest)
        return LongResponse(parts, self.status, CIMultiDict(self.lines()))

    def lines(self) -> Headers:
        """Return all headers except those that depend on the connection."""
        usual = (PRIVATE, ("Content-Type", self.media_type))
        if not self.headers and not self.warnings:
            return usual
        return (*{**dict(usual), **self.headers}.items(), *_warning_headers(self.warnings))


async def encoded_reply(body: Object, form: Form, status: int = 200, warnings: Sequence[str] = ()) -> Reply:
    """Return a reply with an object, encoded off the event loop if it is large and the form is another than JSON."""
    plain = dump(body)
    data = plain if form == PLAIN else await offload(len(plain), lambda: dump(body, form))
    return Reply(data, status, form.media_type, warnings=warnings)


Response = Reply | web.StreamResponse
"""A reply is written by the connection; a StreamResponse writes itself."""


class LongResponse(web.StreamResponse):
    """A body of more than GZIP_FROM bytes. Its size is unknown before it is made, so it is sent chunked."""

    def __init__(self, parts: Iterable[bytes], status: int, headers: Mapping[str, str]) -> None:
        super().__init__(status=status, headers=headers)
        self.on_written: Callable[[int], None] = _ignore_size
        """Called with the number of body bytes before compression."""
        self._parts = parts
        self._packer: zlib._Compress | None = None
        self._transport: asyncio.Transport | None = None

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        if request.method == "HEAD":
            self._parts = ()
        if not self.prepared and takes_gzip(request.headers.get("Accept-Encoding", "")):
            self._packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_WINDOW)
            self.headers["Content-Encoding"] = "gzip"
        self.headers["Vary"] = ", ".join(filter(None, (self.headers.get("Vary"), "Accept-Encoding")))
        if audit_id := request.get(AUDIT_ID):
            self.headers["Audit-Id"] = audit_id
        self._transport = request.transport
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the parts. The seats are given back when the last is made, or when the client makes it wait."""
        size = 0
        parts, self._parts = self._parts, ()  # the response lives on in a cycle until it is collected
        if isinstance(parts, Sequence):
            give_back.get()()
        for part in parts:
            size += len(part)
            await self._write_part(part)
            await asyncio.sleep(0)  # each part is made in the event loop: let other requests run in between
        give_back.get()()
        if self._packer is not None:
            await self._send(self._packer.flush())
        await super().write_eof(data)
        self.on_written(size)

    async def _write_part(self, part: bytes) -> None:
        if self._packer is not None:  # in a thread: 256 KiB take milliseconds, and zlib releases the GIL
            part = await asyncio.to_thread(self._packer.compress, part)
        if part:
            await self._send(part)

    async def _send(self, part: bytes) -> None:
        if self._transport is None:
            raise ConnectionResetError("the client is gone")
        with Unread(self._transport):
            await self.write(part)


def _ignore_size(size: int) -> None:
    pass


def takes_gzip(accepted: str) -> bool:
    """Return True if an Accept-Encoding header accepts gzip."""
    for clause in accepted.lower().split(","):
        coding, _, weight = (text.strip() for text in clause.partition(";"))
        if coding == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def wants_pretty(http: web.BaseRequest) -> bool:
    """Return True for `?pretty`, and without it for browsers, curl and wget, as upstream."""
    asked = http.query.get("pretty", "")
    return asked in GO_TRUE if asked else http.headers.get("User-Agent", "").startswith(PRETTY_AGENTS)


def indented(response: Response) -> Response:
    """Return the response with line breaks if it is short, not too deep, and JSON, else unchanged."""
    if not isinstance(response, Reply) or not response.media_type.startswith("application/json"):
        return response
    body = response.body.rstrip()
    return replace(response, body=msgspec.json.format(body, indent=2) + b"\n") if body and _is_flat(body) else response


def _is_flat(body: bytes) -> bool:
    """Return False for many values that lie deep: 64,000 of them 190 levels deep became 24 MB, in 0.1 s."""
    if body.count(b",") < MANY_VALUES:
        return True
    unescaped = body.replace(rb"\\", b"").replace(rb"\"", b"")
    brackets = TEXT.sub(b"", unescaped.translate(None, OTHER_BYTES))
    for _ in range(DEEP):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return not brackets


def _warning_headers(warnings: Sequence[str]) -> Iterator[tuple[str, str]]:
    left = WARNINGS_LIMIT
    for warning in list(dict.fromkeys(warnings))[:WARNINGS_COUNT]:
        quoted = _quoted(warning)
        left -= len(quoted)
        if left < 0:
            break
        yield "Warning", f"299 - {quoted}"


def _quoted(text: str) -> str:
    """Return a quoted string for a header: one line of printable ASCII, at most WARNING_LIMIT characters."""
    plain = " ".join(text.split()).encode("ascii", "replace").decode()[:WARNING_LIMIT]
    plain = "".join(character if character.isprintable() else "?" for character in plain)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
