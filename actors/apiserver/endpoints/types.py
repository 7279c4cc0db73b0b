"""What every endpoint gets and gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from actors.apiserver.negotiate import Form
from actors.apiserver.query import ListOptions
from actors.apiserver.selection import Selection
from actors.apiserver.target import Target
from actors.apiserver.types import User


@dataclass(frozen=True)
class Request:
    """A resource request that has passed authorization. `options` and `wanted` only for verbs on collections."""

    http: web.BaseRequest
    user: User
    target: Target
    query: Mapping[str, str]
    dry_runs: list[str]
    form: Form
    options: ListOptions
    wanted: Selection


@dataclass(frozen=True)
class Reply:
    body: bytes
    status: int = 200
    media_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)

    def response(self) -> web.Response:
        return web.Response(
            body=self.body, status=self.status, headers={**self.headers, "Content-Type": self.media_type}
        )
