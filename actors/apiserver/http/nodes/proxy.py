"""nodes/NAME/proxy: any path of a node's endpoint, with the API server's identity, for who may use `nodes/proxy`.

The node gets the client's method, query, headers and body, without its credentials. Its redirects stay below the proxy.
"""

from urllib.parse import urlsplit

import aiohttp
from aiohttp import hdrs, web
from msgspec.structs import replace
from multidict import CIMultiDict, MultiMapping

from actors.apiserver.api.errors import BadRequest, ServiceUnavailable
from actors.apiserver.api.objects import text
from actors.apiserver.api.request.target import PROXY
from actors.apiserver.http.connection.requests import Request
from actors.apiserver.http.nodes.client import Forwarded, NodeClient
from actors.apiserver.http.nodes.location import Location, address
from actors.apiserver.reads.reader import Reader

HOPS = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
"""Headers of a connection, not of a request."""
CREDENTIALS = frozenset(("authorization", "cookie", "set-cookie", "host", "expect"))
IDENTITIES = ("impersonate-", "x-remote-", "x-forwarded-")
"""Beginnings of headers that name a user or a client."""
SCHEMES = ("", "https")


class NodeProxy:
    def __init__(self, reader: Reader, client: NodeClient) -> None:
        self._reader, self._client = reader, client

    async def serve(self, request: Request) -> web.StreamResponse:
        """Raises StatusError before the first byte."""
        http = request.http
        if http.headers.get(hdrs.UPGRADE):
            raise BadRequest("nodes/proxy does not upgrade connections; use exec, attach or portforward of the pod")
        scheme, name, port = split_name(request.target.name)
        node = (await self._reader.get(replace(request.target, name=name), None)).obj
        host, known = address(name, node)
        if scheme not in SCHEMES or port not in ("", str(known)):
            raise BadRequest(
                f"only the endpoint of node {name} is reached here: name it {name} or https:{name}:{known}"
            )
        base, path = split_path(http.rel_url.raw_path)
        where = Location(text(node, "metadata", "name"), host, known, path, ())
        body = http.content if http.can_read_body else None
        sent = Forwarded(http.rel_url.raw_query_string, passed(http.headers), body)
        async with await self._client.forward(http.method, where, sent) as source:
            headers = passed(source.headers)
            if location := source.headers.get(hdrs.LOCATION):
                headers[hdrs.LOCATION] = moved(location, base, where)
            sink = web.StreamResponse(status=source.status, headers=headers)
            await sink.prepare(http)
            await relay(source, sink, http)
            return sink


def split_name(name: str) -> tuple[str, str, str]:
    """Return scheme, name and port of NAME, NAME:PORT or SCHEME:NAME:PORT. Raises BadRequest."""
    parts = name.split(":")
    match parts:
        case [only]:
            return "", only, ""
        case [first, port]:
            return "", first, port
        case [scheme, first, port]:
            return scheme, first, port
    raise BadRequest(f'invalid node request "{name}"')


def split_path(raw: str) -> tuple[str, str]:
    """Return the path of the proxy and the node's path below it, as sent."""
    parts = raw.split("/")
    at = parts.index(PROXY, 5)  # /api/v1/nodes/NAME/proxy
    return "/".join(parts[: at + 1]), "/" + "/".join(parts[at + 1 :])


def passed(headers: MultiMapping[str]) -> CIMultiDict[str]:
    """Return the headers that reach the other side."""
    found: CIMultiDict[str] = CIMultiDict()
    for name, value in headers.items():
        key = name.lower()
        if key not in HOPS and key not in CREDENTIALS and not key.startswith(IDENTITIES):
            found.add(name, value)
    return found


def moved(location: str, base: str, where: Location) -> str:
    """Return where a redirect of the node leads below the proxy. Raises ServiceUnavailable if it leads elsewhere."""
    parts = urlsplit(location)
    if parts.netloc and parts.netloc not in (where.host, f"{where.host}:{where.port}"):
        raise ServiceUnavailable(f'node "{where.name}" redirects to {parts.netloc:.100}, which is forbidden')
    if not parts.path.startswith("/"):
        return location
    return base + parts.path + (f"?{parts.query}" if parts.query else "")


async def relay(source: aiohttp.ClientResponse, sink: web.StreamResponse, http: web.BaseRequest) -> None:
    """Relay a body. If it breaks off, the client's connection is aborted, or the body would look complete."""
    try:
        async for piece in source.content.iter_any():
            await sink.write(piece)
        await sink.write_eof()
    except (aiohttp.ClientError, ConnectionError, TimeoutError):
        if http.transport is not None:
            http.transport.abort()
