"""Proxies: nodes/NAME/proxy, pods/NAME/proxy and services/NAME/proxy.

A node's endpoint is reached with the API server's identity, a port of a pod without any. Either gets the client's
method, query, headers and body, without its credentials. Its redirects stay below the proxy.
"""

from collections.abc import Collection
from urllib.parse import unquote, urlsplit

import aiohttp
from aiohttp import hdrs, web
from msgspec.structs import replace
from multidict import CIMultiDict, MultiMapping

from actors.apiserver.api.errors import NEVER_AGAIN, BadRequest, ServiceUnavailable
from actors.apiserver.api.request.target import Target
from actors.apiserver.http.connection.requests import Request, send_continue
from actors.apiserver.http.nodes.backends import Backends, split_name
from actors.apiserver.http.nodes.client import Forwarded, NodeClient
from actors.apiserver.http.nodes.location import Location, address
from actors.apiserver.http.nodes.pod_client import PodClient
from actors.apiserver.reads.reader import Reader
from protocols.kube.meta import Object
from protocols.kube.objects import text

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


Opened = tuple[aiohttp.ClientResponse, Collection[str]]
"""A response with its body unread, and the names of its host."""


class Proxy:
    """Relays one request and its response; no body is held in memory."""

    def __init__(self, reader: Reader, nodes: NodeClient, pods: PodClient, backends: Backends) -> None:
        self._reader, self._nodes, self._pods, self._backends = reader, nodes, pods, backends

    async def serve(self, request: Request) -> web.StreamResponse:
        """Raises StatusError before the first byte."""
        http, target = request.http, request.target
        if http.headers.get(hdrs.UPGRADE):
            kind = target.resource.plural
            raise BadRequest(f"{kind}/proxy does not upgrade connections; use exec, attach or portforward of the pod")
        base, path = split_path(http.rel_url.raw_path, target)
        query = http.rel_url.raw_query_string
        to_node = target.resource.plural == "nodes"
        if not (path or to_node) and http.method in ("GET", "HEAD"):
            await self._backends.named(target)
            return web.Response(status=301, headers={hdrs.LOCATION: f"{base}/{query and '?'}{query}"})
        headers = passed(http.headers)
        headers.update({"X-Forwarded-Uri": base + (path or "/"), "X-Forwarded-For": http.remote or ""})
        sent = Forwarded(query, headers, http.content if http.can_read_body else None)
        await send_continue(http)
        source, hosts = await (self._open_node if to_node else self._open_pod)(request, path or "/", sent)
        async with source:
            headers = passed(source.headers)
            if location := source.headers.get(hdrs.LOCATION):
                headers[hdrs.LOCATION] = moved(location, base, hosts)
            sink = web.StreamResponse(status=source.status, headers=headers)
            await sink.prepare(http)
            await relay(source, sink, http)
            return sink

    async def _open_node(self, request: Request, path: str, sent: Forwarded) -> Opened:
        scheme, name, port = split_name(request.target.name, "node")
        node = (await self._reader.get(replace(request.target, name=name), None)).obj
        host, known = address(name, node)
        if scheme == "http" or port not in ("", str(known)):
            raise BadRequest(
                f"only the endpoint of node {name} is reached here: name it {name} or https:{name}:{known}"
            )
        where = Location(text(node, "metadata", "name"), host, known, path, ())
        return await self._nodes.forward(request.http.method, where, sent), (host, f"{host}:{known}")

    async def _open_pod(self, request: Request, path: str, sent: Forwarded) -> Opened:
        where = await self._backends.find(request.target, await self._backends.named(request.target))
        return await self._pods.forward(request.http.method, where, path, sent), where.hosts


def split_path(raw: str, target: Target) -> tuple[str, str]:
    """Return the path of the proxy and the path below it, as sent; the latter is empty if nothing follows."""
    parts = raw.lstrip("/").split("/")
    at = 7 if target.resource.namespaced else 5  # api/v1/nodes/NAME/proxy, api/v1/namespaces/NAMESPACE/pods/NAME/proxy
    rest = parts[at:]
    return "/" + "/".join(parts[:at]), "/" + "/".join(rest) if rest else ""


def proxy_options(raw: str, target: Target) -> Object:
    """Return the options object of a proxied request, which policies and webhooks see."""
    return {
        "kind": f"{target.resource.kind}ProxyOptions",
        "apiVersion": "v1",
        "path": unquote(split_path(raw, target)[1]),
    }


def passed(headers: MultiMapping[str]) -> CIMultiDict[str]:
    """Return the headers that reach the other side: none of this hop, nor what `Connection` names as such."""
    hop = HOPS | {name.strip().lower() for value in headers.getall("Connection", ()) for name in value.split(",")}
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in headers.items():
        key = name.lower()
        if key not in hop and key not in CREDENTIALS and not key.startswith(IDENTITIES):
            kept.add(name, value)
    return kept


def moved(location: str, base: str, hosts: Collection[str]) -> str:
    """Return where a redirect leads below the proxy. Raises ServiceUnavailable if it leads elsewhere."""
    parts = urlsplit(location)
    if parts.netloc and parts.netloc not in hosts:
        raise ServiceUnavailable(f"the backend redirects to {parts.netloc:.100}, which is forbidden", NEVER_AGAIN)
    path = parts.path or ("/" if parts.netloc else "")
    if not path.startswith("/"):
        return location
    return base + path + (f"?{parts.query}" if parts.query else "")


async def relay(source: aiohttp.ClientResponse, sink: web.StreamResponse, http: web.BaseRequest) -> None:
    """Relay a body. If it breaks off, the client's connection is aborted, or the body would look complete."""
    try:
        async for piece in source.content.iter_any():
            await sink.write(piece)
        await sink.write_eof()
    except (aiohttp.ClientError, ConnectionError, TimeoutError):
        if http.transport is not None:
            http.transport.abort()
