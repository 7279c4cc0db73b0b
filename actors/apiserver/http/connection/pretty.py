"""Answers for people: indented for those who ask, and for browsers, curl and wget; not those made in parts."""

import msgspec
from aiohttp import web
from msgspec.structs import replace

from actors.apiserver.http.connection.messages import Reply, Response

AGENTS = ("curl", "Wget", "Mozilla/5.0")
TRUE = ("1", "t", "T", "TRUE", "true", "True")
"""As Go reads a boolean."""


def is_for_people(http: web.BaseRequest) -> bool:
    asked = http.query.get("pretty", "")
    return asked in TRUE if asked else http.headers.get("User-Agent", "").startswith(AGENTS)


def indented(response: Response) -> Response:
    """The same answer, with line breaks, if it is JSON and whole."""
    if not isinstance(response, Reply) or response.media_type.partition(";")[0] != "application/json":
        return response
    return replace(response, body=msgspec.json.format(response.body, indent=2).rstrip() + b"\n")
