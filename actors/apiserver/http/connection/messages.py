"""Requests and replies, as endpoints take and return them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from actors.apiserver.api.encoding.negotiate import Form, Headers
from actors.apiserver.api.query import ListOptions
from actors.apiserver.api.selection import Selection
from actors.apiserver.api.target import Target
from actors.apiserver.api.user import User
from actors.apiserver.http.connection.long import GZIP_FROM, LongResponse

MAX_WARNING = 1024
MAX_WARNINGS, MOST_WARNINGS = 4096, 50
"""Characters and headers of all warnings of an answer: some clients take no more than 100 headers."""


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


class Reply(msgspec.Struct, frozen=True):
    body: bytes
    status: int = 200
    media_type: str = "application/json"
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    warnings: Sequence[str] = ()
    rest: Iterator[bytes] | None = None
    """What follows `body`, made while it is written."""

    def response(self) -> "Response":
        """Itself, when it is short."""
        if self.rest is None and len(self.body) <= GZIP_FROM:
            return self
        return LongResponse(chain((self.body,), self.rest or ()), self.status, CIMultiDict(self.lines()))

    def lines(self) -> Headers:
        """All headers."""
        usual = (("Content-Type", self.media_type),)
        if not self.headers and not self.warnings:
            return usual
        return (*self.headers.items(), *usual, *_warnings(self.warnings))


Response = Reply | web.StreamResponse
"""What is answered; what is no Reply writes itself."""


def _warnings(warnings: Sequence[str]) -> Iterator[tuple[str, str]]:
    left = MAX_WARNINGS
    for warning in warnings[:MOST_WARNINGS]:
        quoted = _quoted(warning)
        left -= len(quoted)
        if left < 0:
            break
        yield "Warning", f"299 - {quoted}"


def _quoted(text: str) -> str:
    """A quoted string of a header: one line of ASCII, of bearable length."""
    plain = " ".join(text.split()).encode("ascii", "replace").decode()[:MAX_WARNING]
    plain = "".join(character if character.isprintable() else "?" for character in plain)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
