"""What every endpoint gets and gives."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import msgspec
from aiohttp import web

from actors.apiserver.answers.negotiate import Form
from actors.apiserver.authentication.user import User
from actors.apiserver.endpoints.long import GZIP_FROM, LongResponse
from actors.apiserver.endpoints.whole import WholeResponse
from actors.apiserver.reads.selection import Selection
from actors.apiserver.request.query import ListOptions
from actors.apiserver.request.target import Target

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


class Reply(msgspec.Struct, frozen=True):
    body: bytes
    status: int = 200
    media_type: str = "application/json"
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    warnings: Sequence[str] = ()
    rest: Iterator[bytes] | None = None
    """What follows `body`, made while it is written."""

    def response(self) -> web.StreamResponse:
        headers = {**self.headers, "Content-Type": self.media_type}
        made: web.StreamResponse
        if self.rest is not None or len(self.body) > GZIP_FROM:
            made = LongResponse(chain((self.body,), self.rest or ()), self.status, headers)
        else:
            made = WholeResponse(self.body, self.status, headers)
        left = MAX_WARNINGS
        for warning in self.warnings[:MOST_WARNINGS]:
            told = _quoted(warning)
            left -= len(told)
            if left < 0:
                break
            made.headers.add("Warning", f"299 - {told}")
        return made


def _quoted(text: str) -> str:
    """A quoted string of a header: one line of ASCII, of bearable length."""
    plain = " ".join(text.split()).encode("ascii", "replace").decode()[:MAX_WARNING]
    plain = "".join(character if character.isprintable() else "?" for character in plain)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
