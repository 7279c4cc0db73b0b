"""The listening side: TLS on loopback, one port shared by all processes, aiohttp's low-level server."""

import asyncio
import resource
import ssl
from collections.abc import Callable
from pathlib import Path

import msgspec
from aiohttp import web

from actors.apiserver.http.connection.connection import Connections, give_back
from actors.apiserver.http.routing.handler import Handler
from protocols.errors import NodeplaneError
from protocols.process.tls import Renewed, ServerContext, server_context, serving
from protocols.serving.listener import Listener, ListenerOptions
from protocols.serving.server_log import server_logger
from protocols.serving.unauthenticated import UnauthenticatedConnections, UnauthenticatedLimits

TRUST_SECONDS = 2.0
"""Seconds after which replaced client CAs are noticed at the latest."""
STREAM_GRACE_SECONDS = 60.0
"""Time that requests in progress then have left; watches and idle connections end at once."""
LINE_LIMIT = 128 * 1024
"""Bytes of a request line: clients send label selectors of hundreds of names, which are bounded to half of it."""
HEADER_LIMIT = 64 * 1024
"""Bytes of one header; there may be 128."""


class CannotListen(NodeplaneError, grpc="FAILED_PRECONDITION"):
    """Raised when the port is taken or the certificates cannot be used."""


class ServerOptions(msgspec.Struct, frozen=True):
    """Address and certificates; the files are read again when they change."""

    port: int
    cert: Path
    key: Path
    client_ca: Path
    host: str = "127.0.0.1"


class Server:
    """Listens from `start` on; connections of watches are taken over by others and may come back through `reuse`."""

    def __init__(self, options: ServerOptions, handler: Handler) -> None:
        self._options = options
        server = Connections(
            handler,
            handler_cancellation=True,
            access_log=None,
            tcp_keepalive=True,
            auto_decompress=False,
            max_line_size=LINE_LIMIT,
            max_field_size=HEADER_LIMIT,
            logger=server_logger(),
        )
        self._server = server
        self.reuse = give_back(server)
        """Receives open connections that were taken over."""
        self.on_distrust: Callable[[], None] = _nothing
        """Called when client CAs were replaced: the owner of connections taken over must end these."""
        self._contexts: Renewed[ServerContext] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=1.0)
        self._listener: Listener | None = None

    async def start(self) -> None:
        """Raises CannotListen."""
        options = self._options
        allow_files()
        await self._runner.setup()
        about = ListenerOptions(options.host, options.port, self.tls(), self._server, shared=True)
        listener = Listener(about, UnauthenticatedConnections(UnauthenticatedLimits()))
        try:
            listener.start()
        except OSError as error:
            text = error.strerror or str(error)
            raise CannotListen(
                f"cannot listen on {options.host}:{options.port}: {text}; choose another --port"
            ) from None
        self._listener = listener
        if self._contexts is not None:
            self._check_trust(self._contexts, self._contexts.last.trust)

    def _check_trust(self, contexts: Renewed[ServerContext], trust: bytes) -> None:
        loop, fresh = asyncio.get_running_loop(), contexts.now().trust
        self._timer = loop.call_later(TRUST_SECONDS, self._check_trust, contexts, fresh)
        if fresh != trust:
            self._server.distrust(abort=False)
            self.on_distrust()
            loop.call_later(STREAM_GRACE_SECONDS, self._server.distrust, True)

    def tls(self) -> ssl.SSLContext | None:
        """Raises CannotListen."""
        options = self._options
        files = (options.cert, options.key, options.client_ca)
        self._contexts = Renewed(files, lambda: tls_context(options))
        return serving(self._contexts)

    async def stop_listening(self) -> None:
        """Stop accepting: new connections go to the other processes of the port; open ones stay."""
        if self._listener is not None:
            self._listener.stop()

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._timer is not None:
            self._timer.cancel()
        await self._runner.cleanup()


def _nothing() -> None:
    return None


def allow_files() -> None:
    """Raise the soft limit of open files to the hard one: each connection is an open file."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def tls_context(options: ServerOptions) -> ServerContext:
    """Raises CannotListen."""
    try:
        return server_context(options.cert, options.key, options.client_ca)
    except OSError as error:
        raise CannotListen(f"cannot use {options.cert} with {options.client_ca}: {error}") from None
