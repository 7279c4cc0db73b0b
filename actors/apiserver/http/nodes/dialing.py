"""Open connections to nodes for exec, attach and port-forward.

Nodes that declare ExtendWebSocketsToKubelet (kubelets since 1.36, and our own) are called with websockets, others with
SPDY/3.1, which any kubelet speaks.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from actors.apiserver.api.errors import ApiError, BadRequest, Forbidden, InternalError, NotFound
from actors.apiserver.http.nodes.client import NodeClient
from actors.apiserver.http.nodes.location import Location, NodeUnavailable
from protocols.kube.errors import StatusError
from protocols.kube.jsons import read_json_object
from protocols.kube.meta import Object
from protocols.streams.channels import TUNNEL, V5
from protocols.streams.connections import FORWARD, Socket, Spdy
from protocols.streams.spdy_channels import OFFERED, SpdyCommand
from protocols.streams.spdy_dial import DialedWire, NotUpgraded

WEBSOCKETS = "ExtendWebSocketsToKubelet"
LARGEST_STATUS = 64 * 1024
REDIRECTS = range(300, 400)
KINDS: dict[int, type[ApiError]] = {400: BadRequest, 403: Forbidden, 404: NotFound, 500: InternalError}
LONGEST_TEXT = 1024
"""Characters of a node's plain-text error that clients see."""


class Dialing:
    """Connections to nodes, by websocket or SPDY as the node supports it."""

    def __init__(self, client: NodeClient) -> None:
        self._client = client

    @asynccontextmanager
    async def command(self, where: Location, channels: set[int]) -> AsyncIterator[Socket]:
        """Connect for exec or attach: messages of v5. Raises StatusError."""
        node = await self._websocket(where, V5)
        if node is not None:
            async with node:
                yield node
            return
        wire = await self._spdy(where, OFFERED)
        try:
            command = SpdyCommand(wire)
            try:
                await command.open(channels)
            except ConnectionError as error:
                raise NodeUnavailable(where.name, f"does not open the stream: {error}") from None
            yield command
        finally:
            wire.close()

    @asynccontextmanager
    async def forward(self, where: Location) -> AsyncIterator[Socket]:
        """Connect for a port-forward: bytes of a SPDY connection. Raises StatusError."""
        node = await self._websocket(where, TUNNEL)
        if node is not None:
            async with node:
                yield node
            return
        wire = await self._spdy(where, FORWARD)
        try:
            yield Spdy(wire)
        finally:
            wire.close()

    async def _websocket(self, where: Location, protocol: str) -> aiohttp.ClientWebSocketResponse | None:
        """Return None for nodes that take no websockets, or not this one. Raises StatusError.

        A websocket's rejection carries no reason: SPDY is tried next, whose rejection does.
        """
        if WEBSOCKETS not in where.features:
            return None
        return await self._client.websocket(where, protocol)

    async def _spdy(self, where: Location, protocol: str) -> DialedWire:
        """Raises StatusError."""
        try:
            return await self._client.spdy(where, protocol)
        except NotUpgraded as answer:
            if answer.status in REDIRECTS:
                reason = f"does not answer: it answers {answer.status}, and redirects are forbidden"
                raise NodeUnavailable(where.name, reason) from None
            raise node_error(where, answer.status, answer.body) from None


async def answered_error(where: Location, answer: aiohttp.ClientResponse) -> StatusError:
    """Return the error of a node's response."""
    try:
        body = await answer.content.read(LARGEST_STATUS)
    except aiohttp.ClientError:
        body = b""
    return node_error(where, answer.status, body)


def _is_failure(status: Object) -> bool:
    """Return True for a Status that clients can be given: with the code of an error, and details of their type."""
    code, details = status.get("code"), status.get("details") or {}
    after = details.get("retryAfterSeconds") if isinstance(details, dict) else ""
    return type(code) is int and 400 <= code < 600 and isinstance(after, int | None)


def node_error(where: Location, code: int, body: bytes) -> StatusError:
    """Return a node's error: its Status, or the text that a kubelet answers."""
    try:
        status = read_json_object(body)
    except msgspec.DecodeError:
        status = {}
    if status.get("kind") == "Status" and _is_failure(status):
        return StatusError(status)
    text = " ".join(body.decode(errors="replace").split())[:LONGEST_TEXT]
    kind = KINDS.get(code)
    if kind is None or not text:
        return NodeUnavailable(where.name, f"answered {code}: {text or 'no reason'}")
    return kind(text)
