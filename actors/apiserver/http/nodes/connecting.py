"""Pod subresources served by the node: log, exec, attach, portforward."""

from collections.abc import Callable

import aiohttp
import msgspec
from aiohttp import web

from actors.apiserver.api.errors import BadRequest, ServiceUnavailable
from actors.apiserver.api.target import Target
from actors.apiserver.http.connection.requests import Request
from actors.apiserver.http.nodes.client import NodeClient
from actors.apiserver.http.nodes.location import Location, log_location, stream_location
from actors.apiserver.reads.reader import Reader
from protocols.kube.errors import StatusError
from protocols.kube.meta import Object
from protocols.streams.channels import CHANNEL_PROTOCOLS, LARGEST_MESSAGE, PING_S, TUNNEL
from protocols.streams.connections import FORWARD, VERSION_HEADER, Spdy, join, offered, upgrade, wants_spdy
from protocols.streams.spdy_channels import OFFERED, SpdyChannels, wanted

LOG = "log"
KINDS = {"exec": "exec", "attach": "attach", "portforward": "portForward"}
"""The node's names of the subresources."""
LARGEST_STATUS = 64 * 1024


def connect_verb(target: Target) -> str:
    """Return the verb to authorize: a connection needs `create`, also if the protocol starts with GET."""
    return "get" if target.subresource == LOG else "create"


class Connecting:
    """`node` returns the node object of a name from the replica."""

    def __init__(self, reader: Reader, client: NodeClient, node: Callable[[str], Object | None]) -> None:
        self._reader = reader
        self._client = client
        self._node = node

    @staticmethod
    def serves(subresource: str) -> bool:
        return subresource == LOG or subresource in KINDS

    async def serve(self, request: Request) -> web.StreamResponse:
        """Raises StatusError before the first byte."""
        http = request.http
        pod = (await self._reader.get(request.target, None)).obj
        if request.target.subresource == LOG:
            return await self._log(http, log_location(pod, self._node, http.query))
        kind = KINDS[request.target.subresource]
        return await self._connection(http, kind, stream_location(kind, pod, self._node, http.query))

    async def close(self) -> None:
        await self._client.close()

    async def _log(self, http: web.BaseRequest, where: Location | None) -> web.StreamResponse:
        if where is None:
            return web.Response(content_type="text/plain")
        async with await self._client.get(where) as source:
            if source.status != 200:
                raise await _node_error(where, source)
            sink = web.StreamResponse(headers={"Content-Type": "text/plain", "Cache-Control": "no-cache, private"})
            if http.version >= (1, 1):
                sink.enable_chunked_encoding()
            await sink.prepare(http)
            await _relay(source, sink, http)
            return sink

    async def _connection(self, http: web.BaseRequest, kind: str, where: Location) -> web.StreamResponse:
        if wants_spdy(http):
            return await self._spdy_connection(http, kind, where)
        protocol = _websocket_protocol(http, (TUNNEL,) if kind == "portForward" else CHANNEL_PROTOCOLS)
        node = await self._client.connect(where, (protocol,))
        if node is None:
            raise await self._rejection(where)
        async with node:
            client = web.WebSocketResponse(
                protocols=(protocol,), compress=False, max_msg_size=LARGEST_MESSAGE, heartbeat=PING_S
            )
            await client.prepare(http)
            await join(client, node)
        return client

    async def _spdy_connection(self, http: web.BaseRequest, kind: str, where: Location) -> web.StreamResponse:
        """Serve a client that speaks SPDY without a websocket; the connection to the node is a websocket."""
        known = FORWARD if kind == "portForward" else OFFERED
        if known not in offered(http):
            raise BadRequest(f"over SPDY only the protocol {known} is spoken; offer it in {VERSION_HEADER}")
        node = await self._client.connect(where, (TUNNEL,) if kind == "portForward" else CHANNEL_PROTOCOLS)
        if node is None:
            raise await self._rejection(where)
        async with node:
            wire = upgrade(http, known)
            client = Spdy(wire) if kind == "portForward" else SpdyChannels(wire)
            if not isinstance(client, SpdyChannels) or await client.open(wanted(dict(where.query))):
                await join(client, node)
        return client.answer

    async def _rejection(self, where: Location) -> StatusError:
        """Ask once more without a handshake, since a failed handshake carries no reason."""
        async with await self._client.get(where) as answer:
            return await _node_error(where, answer)


async def _relay(source: aiohttp.ClientResponse, sink: web.StreamResponse, http: web.BaseRequest) -> None:
    """Relay a log. If it breaks off, the client's connection is aborted, or the log would look complete."""
    try:
        async for piece in source.content.iter_any():
            await sink.write(piece)
        await sink.write_eof()
    except (aiohttp.ClientError, ConnectionError, TimeoutError):
        if http.transport is not None:
            http.transport.abort()


async def _node_error(where: Location, answer: aiohttp.ClientResponse) -> StatusError:
    try:
        status = msgspec.json.decode(await answer.content.read(LARGEST_STATUS), type=dict)
    except (msgspec.DecodeError, aiohttp.ClientError):
        status = {}
    if status.get("kind") != "Status":
        return ServiceUnavailable(f'node "{where.name}" answered {answer.status} and no reason')
    return StatusError(status)


def _websocket_protocol(http: web.BaseRequest, known: tuple[str, ...]) -> str:
    """Return the websocket protocol to use. Raises BadRequest."""
    if http.headers.get("Upgrade", "").lower() != "websocket":
        raise BadRequest(f"connect by SPDY/3.1, or by a websocket with the protocol {' or '.join(known)}")
    chosen = [part.strip() for part in http.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    for protocol in known:
        if protocol in chosen:
            return protocol
    raise BadRequest(f"none of the offered websocket protocols is known; offer {' or '.join(known)}")
