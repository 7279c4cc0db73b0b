"""Our own connections to nodes: TLS, our client certificate, and the node's certificate must name the node."""

import asyncio
import ssl
from pathlib import Path
from typing import Any, cast

import aiohttp
import msgspec
from yarl import URL

from actors.apiserver.connect.location import Location
from actors.apiserver.errors.answers import ServiceUnavailable
from protocols.streams.channels import LARGEST_MESSAGE
from protocols.tls import Renewed

CONNECT_S = 5.0
HEADERS_S = 30.0
"""How long a node may take to begin its answer."""


class NodeClientOptions(msgspec.Struct, frozen=True):
    cert: Path
    key: Path
    ca: Path


class NodeClient:
    """Opened at the first use: a plane in which nobody asks pays nothing."""

    def __init__(self, options: NodeClientOptions) -> None:
        self._options = options
        self._session: aiohttp.ClientSession | None = None
        self._contexts: Renewed[ssl.SSLContext] | None = None

    async def get(self, where: Location) -> aiohttp.ClientResponse:
        """The answer, its body unread. Raises ServiceUnavailable."""
        try:
            async with asyncio.timeout(HEADERS_S):
                return await self._opened().get(
                    _url(where), server_hostname=where.name, timeout=_TIMEOUT, ssl=self._tls()
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise away(where, error) from None

    async def connect(self, where: Location, protocols: tuple[str, ...]) -> aiohttp.ClientWebSocketResponse | None:
        """A websocket to the node; None when the node refused it. Raises ServiceUnavailable."""
        options: dict[str, Any] = {"server_hostname": where.name, "max_msg_size": LARGEST_MESSAGE, "ssl": self._tls()}
        try:
            async with asyncio.timeout(HEADERS_S):
                return cast(
                    aiohttp.ClientWebSocketResponse,
                    await self._opened().ws_connect(_url(where), protocols=protocols, timeout=_CLOSING, **options),
                )
        except aiohttp.WSServerHandshakeError:
            return None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise away(where, error) from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, force_close=True)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        return self._session

    def _tls(self) -> ssl.SSLContext:
        options = self._options
        try:
            if self._contexts is None:
                self._contexts = Renewed((options.ca, options.cert, options.key), lambda: _context(options))
        except OSError as error:
            raise ServiceUnavailable(f"cannot use {options.cert} to call nodes: {error}") from None
        return self._contexts.now()


def _context(options: NodeClientOptions) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(options.ca))
    context.load_cert_chain(options.cert, options.key)
    return context


_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
_CLOSING = aiohttp.ClientWSTimeout(ws_close=2.0)


def away(where: Location, error: BaseException) -> ServiceUnavailable:
    why = " ".join(str(error).split()) or type(error).__name__
    return ServiceUnavailable(f'node "{where.name}" does not answer: {why}')


def _url(where: Location) -> URL:
    base = URL.build(scheme="https", host=where.host, port=where.port, path=where.path)
    return base.with_query(list(where.query)) if where.query else base
