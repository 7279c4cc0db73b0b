"""Our own connections to nodes: TLS, our client certificate, and the node's certificate must name the node.

The name is `serving_name(NODE)`, which is never the API's. The bare name is tried second: kubelets serve with it, and
nodes that joined with a file of an earlier version.

No redirect is followed: a node must not choose where the API server connects, nor keep cookies with it.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from actors.apiserver.api.errors import NEVER_AGAIN, ServiceUnavailable
from actors.apiserver.http.nodes.location import Location, NodeUnavailable
from protocols.messages.podworker import serving_name
from protocols.process.tls import Renewed, client_context
from protocols.streams.accepting import keep_alive
from protocols.streams.channels import LARGEST_MESSAGE
from protocols.streams.connections import no_redirects
from protocols.streams.spdy_dial import DialedWire, Upgrade, dial
from protocols.streams.turns import DialedSocket

CONNECT_S = 5.0
HEADERS_S = 30.0
"""Longest time until the head of a node's response."""
MISNAMED = 62
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH."""
Answer = TypeVar("Answer")


class NodeClientOptions(msgspec.Struct, frozen=True):
    """Client certificate for nodes, and the CA of their own ones."""

    cert: Path
    key: Path
    ca: Path
    insecure: bool = False
    """Accept any certificate of a node: by default, kubelets sign their own."""


class Forwarded(msgspec.Struct, frozen=True):
    """The parts of a client's request that a node gets."""

    query: str
    """As sent, encoded."""
    headers: CIMultiDict[str]
    body: aiohttp.StreamReader | None


class ForwardingClient:
    """A client session opened at the first request: it sends each once, and retains nothing of its response."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, force_close=True),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                ws_response_class=DialedSocket,
                trace_configs=[no_redirects()],
            )
            # aiohttp would send PUT and DELETE again when a connection ends without a response, although the write may
            # have taken effect: the caller would get a conflict with its own write. It has no public way to say so.
            self._session._retry_connection = False
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


class NodeClient(ForwardingClient):
    """Calls to kubelets."""

    def __init__(self, options: NodeClientOptions) -> None:
        super().__init__()
        self._options = options
        self._contexts: dict[bool, Renewed[ssl.SSLContext]] = {}
        """By whether any certificate will do."""

    async def get(self, where: Location) -> aiohttp.ClientResponse:
        """Return the response with its body unread. Raises ServiceUnavailable."""

        async def call(name: str) -> aiohttp.ClientResponse:
            return await self._opened().get(_url(where), server_hostname=name, timeout=_TIMEOUT, ssl=tls)

        tls = self._tls(where.insecure)
        return await _called(where, call)

    async def forward(self, method: str, where: Location, sent: Forwarded) -> aiohttp.ClientResponse:
        """Return the response to a client's request, with its body unread. Raises ServiceUnavailable."""
        url = URL.build(
            scheme="https", host=where.host, port=where.port, path=where.path, query_string=sent.query, encoded=True
        )
        options: dict[str, Any] = {"headers": sent.headers, "data": sent.body, "allow_redirects": False}

        async def call(name: str) -> aiohttp.ClientResponse:
            session = self._opened()
            return await session.request(
                method, url, server_hostname=name, timeout=_TIMEOUT, ssl=self._tls(), **options
            )

        return await _called(where, call, NEVER_AGAIN)

    async def websocket(self, where: Location, protocol: str) -> aiohttp.ClientWebSocketResponse | None:
        """Open a websocket to the node; None if the node rejected it. Raises ServiceUnavailable."""
        options: dict[str, Any] = {"max_msg_size": LARGEST_MESSAGE, "ssl": self._tls()}

        async def call(name: str) -> aiohttp.ClientWebSocketResponse | None:
            try:
                opened = await self._opened().ws_connect(
                    _url(where), protocols=(protocol,), timeout=_CLOSING, server_hostname=name, **options
                )
            except aiohttp.WSServerHandshakeError:
                return None
            keep_alive(opened)
            return cast(aiohttp.ClientWebSocketResponse, opened)

        return await _called(where, call)

    async def spdy(self, where: Location, protocol: str) -> DialedWire:
        """Open a SPDY connection to the node. Raises NotUpgraded, ServiceUnavailable."""

        async def call(name: str) -> DialedWire:
            return await dial(Upgrade(str(_url(where)), protocol, self._tls(), name))

        return await _called(where, call)

    def _tls(self, insecure: bool = False) -> ssl.SSLContext:
        options = self._options
        insecure |= options.insecure
        try:
            if insecure not in self._contexts:
                files = (options.ca, options.cert, options.key)
                self._contexts[insecure] = Renewed(files, lambda: _context(options, insecure))
        except OSError as error:
            raise ServiceUnavailable(f"cannot use {options.cert} to call nodes: {error}") from None
        return self._contexts[insecure].now()


def _context(options: NodeClientOptions, insecure: bool) -> ssl.SSLContext:
    context = client_context(options.ca)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(options.cert, options.key)
    return context


async def _called(where: Location, call: Callable[[str], Awaitable[Answer]], retry_after: int = 1) -> Answer:
    """Raises NodeUnavailable."""
    try:
        async with asyncio.timeout(HEADERS_S):
            try:
                return await call(serving_name(where.name))
            except (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError) as error:
                if getattr(getattr(error, "certificate_error", error), "verify_code", 0) != MISNAMED:
                    raise
            return await call(where.name)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _unreachable(where, error, retry_after) from None


_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
_CLOSING = aiohttp.ClientWSTimeout(ws_close=2.0)


def _unreachable(where: Location, error: BaseException, retry_after: int) -> NodeUnavailable:
    why = " ".join(str(error).split()) or type(error).__name__
    return NodeUnavailable(where.name, f"does not answer: {why}", retry_after)


def _url(where: Location) -> URL:
    base = URL.build(scheme="https", host=where.host, port=where.port, path=where.path)
    return base.with_query(list(where.query)) if where.query else base
