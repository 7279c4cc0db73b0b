"""Subresources served by nodes and pods: log, exec, attach and portforward of pods, proxy of nodes, pods, services."""

import aiohttp
from aiohttp import web
from multidict import MultiMapping

from actors.apiserver.api.errors import BadRequest
from actors.apiserver.api.request.query import flag
from actors.apiserver.api.request.target import PROXY, Target, verb_not_supported
from actors.apiserver.http.connection.requests import Request
from actors.apiserver.http.nodes.backends import Backends, Stored
from actors.apiserver.http.nodes.client import NodeClient
from actors.apiserver.http.nodes.dialing import Dialing, answered_error
from actors.apiserver.http.nodes.location import Location, check_log_options, log_location, stream_location
from actors.apiserver.http.nodes.pod_client import PodClient
from actors.apiserver.http.nodes.proxy import Proxy, proxy_options, relay
from actors.apiserver.reads.reader import Reader
from actors.apiserver.writes.admission.admission import Admission
from actors.apiserver.writes.change import CONNECT, Change
from protocols.kube.meta import Object
from protocols.kube.objects import text
from protocols.streams.accepting import (
    ProtocolUnknown,
    accept_command,
    accept_forward,
    accept_websocket,
    command_protocol,
    forward_protocol,
    is_websocket_request,
    send_until_closed,
    websocket_protocol,
)
from protocols.streams.channels import TUNNEL
from protocols.streams.connections import join
from protocols.streams.port_channels import PortsInvalid, ports_of
from protocols.streams.spdy_channels import wanted
from protocols.streams.websocket_channels import LOG_PROTOCOLS, log_message

LOG = "log"
STREAMED = (LOG, PROXY, "exec", "attach", "portforward")
KINDS = {"exec": "exec", "attach": "attach", "portforward": "portForward"}
"""The node's names of the subresources."""
OPTIONS = {
    "exec": "PodExecOptions",
    "attach": "PodAttachOptions",
    "portforward": "PodPortForwardOptions",
}
"""Upstream's kinds of the options of a connection."""


def connect_verb(target: Target) -> str:
    """Return the verb to authorize: a connection needs `create`, also if the protocol starts with GET."""
    return "create" if target.subresource in KINDS else target.verb


PORT_DIGITS = 5


def connect_options(subresource: str, query: MultiMapping[str]) -> Object:
    """Return the options object of a connection, which policies and webhooks see in place of an object."""
    options: Object = {"kind": OPTIONS[subresource], "apiVersion": "v1"}
    if subresource == "portforward":
        ports = [port for given in query.getall("ports", []) for port in given.split(",")]
        return {**options, "ports": [int(port) for port in ports if port.isdecimal() and len(port) <= PORT_DIGITS]}
    options |= {name: bool(flag(query, name)) for name in ("stdin", "stdout", "stderr", "tty")}
    options["container"] = query.get("container", "")
    return {**options, "command": query.getall("command", [])} if subresource == "exec" else options


class Connecting:
    """`stored` reads the newest object: an endpoint that moved is found at once, as upstream does."""

    def __init__(
        self,
        reader: Reader,
        client: NodeClient,
        stored: Stored,
        admission: Admission,
        backends: Backends,
    ) -> None:
        self._reader = reader
        self._admission = admission
        self._client = client
        self._dialing = Dialing(client)
        self._pods = PodClient()
        self._proxy = Proxy(reader, client, self._pods, backends)
        self._stored = stored

    @staticmethod
    def serves(subresource: str) -> bool:
        return subresource in STREAMED

    async def serve(self, request: Request) -> web.StreamResponse:
        """Raises StatusError before the first byte."""
        http = request.http
        if http.method == "HEAD" and request.target.subresource != PROXY:  # a response to HEAD has no body
            raise verb_not_supported(request.target.resource, "head")
        if (subresource := request.target.subresource) != LOG:
            proxied = subresource == PROXY
            options = (
                proxy_options(http.rel_url.raw_path, request.target)
                if proxied
                else connect_options(subresource, http.query)
            )
            await self._admission.review(Change(request.target, request.user, operation=CONNECT, new=options))
        if request.target.subresource == PROXY:
            return await self._proxy.serve(request)
        if request.target.subresource == LOG:
            check_log_options(http.query)
        pod = (await self._reader.get(request.target, None)).obj
        name = text(pod, "spec", "nodeName")
        node = await self._stored("nodes", "", name) if name else None
        if request.target.subresource == LOG:
            return await self._log(http, log_location(pod, node, http.query))
        kind = KINDS[request.target.subresource]
        where = stream_location(kind, pod, node, http.query)
        try:
            return await (self._forward(http, where) if kind == "portForward" else self._command(http, where))
        except (ProtocolUnknown, PortsInvalid) as error:
            raise BadRequest(str(error)) from None

    async def close(self) -> None:
        await self._client.close()
        await self._pods.close()

    async def _log(self, http: web.BaseRequest, where: Location | None) -> web.StreamResponse:
        if where is None:
            return web.Response(status=204)
        async with await self._client.get(where) as source:
            if source.status != 200:
                raise await answered_error(where, source)
            if is_websocket_request(http):
                return await _log_messages(source, http)
            sink = web.StreamResponse(headers={"Content-Type": "text/plain", "Cache-Control": "no-cache, private"})
            if http.version >= (1, 1):
                sink.enable_chunked_encoding()
            await sink.prepare(http)
            await relay(source, sink, http)
            return sink

    async def _command(self, http: web.BaseRequest, where: Location) -> web.StreamResponse:
        protocol, channels = command_protocol(http), wanted(dict(where.query))
        async with self._dialing.command(where, channels) as node:
            client = await accept_command(http, protocol, channels)
            if client.socket is not None:
                await join(client.socket, node)
        return client.response

    async def _forward(self, http: web.BaseRequest, where: Location) -> web.StreamResponse:
        protocol = forward_protocol(http)
        tunnel = protocol.spdy or protocol.name == TUNNEL
        ports = () if tunnel else ports_of(http.query.getall("ports", []))
        async with self._dialing.forward(where) as node:
            client = await accept_forward(http, protocol, ports)
            if client.socket is not None:
                await join(client.socket, node)
        return client.response


async def _log_messages(source: aiohttp.ClientResponse, http: web.BaseRequest) -> web.StreamResponse:
    """Send a log over a websocket. Raises BadRequest."""
    try:
        protocol = websocket_protocol(http, (), LOG_PROTOCOLS)
        response = await accept_websocket(http, protocol)
    except ProtocolUnknown as error:
        raise BadRequest(str(error)) from None
    await send_until_closed(response, _send_log(source, response, protocol))
    return response


async def _send_log(source: aiohttp.ClientResponse, response: web.WebSocketResponse, protocol: str) -> None:
    """Send the log, and an empty message before it: clients wait for one."""
    await log_message(response, protocol, b"")
    async for piece in source.content.iter_any():
        await log_message(response, protocol, piece)
