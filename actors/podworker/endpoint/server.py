"""TLS server of the node endpoint: kubelet's paths, for callers that `access` admits."""

import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from aiohttp import web

from actors.podworker.endpoint.errors import EndpointError, StreamTargetMissing
from protocols.process.files import write_atomic
from protocols.process.tls import Renewed, server_context, serving
from protocols.serving.connection import BoundedServer
from protocols.serving.listener import Listener, ListenerOptions
from protocols.serving.unauthenticated import UnauthenticatedConnections, UnauthenticatedLimits

LOOPBACK = "127.0.0.1"
CLOSE_S = 1.0
MAX_PORT = 65535
READ, STREAMED = ("GET",), ("GET", "POST")
METHODS = {
    **dict.fromkeys(("containerLogs", "pods", "runningpods", "stats"), READ),
    **dict.fromkeys(("exec", "attach", "portForward"), STREAMED),
}
"""Methods by first path segment, as kubelet's; other pages answer any. A response to HEAD has no body."""
KNOWN_S = 75.0
"""Keep-alive timeout for idle connections of the API server."""

Handler = Callable[[web.BaseRequest, list[str]], Awaitable[web.StreamResponse]]
Access = Callable[[web.BaseRequest], Awaitable[None]]
"""Raises EndpointError for a caller without the right to its request."""
log = logging.getLogger("podworker")


class EndpointOptions(msgspec.Struct, frozen=True):
    """Certificates and address of the endpoint."""

    cert: Path
    key: Path
    client_ca: Path
    port_file: Path
    """File that retains the port, so that a restart listens on the same one."""
    host: str = LOOPBACK
    port: int = 0
    """0 = the port used before the restart, else any."""


class NodeEndpoint:
    """HTTPS server that passes requests to `routes`, by their first path segment."""

    def __init__(self, options: EndpointOptions, routes: dict[str, Handler], access: Access) -> None:
        self._options = options
        self._access = access
        self._routes = routes
        self.port = 0
        """0 until the endpoint listens."""
        self._server = BoundedServer(
            self.answer, authenticated_timeout=KNOWN_S, handler_cancellation=True, access_log=None
        )
        self._runner = web.ServerRunner(self._server, handle_signals=False, shutdown_timeout=CLOSE_S)
        self._listener: Listener | None = None

    async def start(self) -> None:
        """Listen. Failures are only logged: a node that cannot serve streams still runs pods."""
        try:
            options = self._options
            files = (options.cert, options.key, options.client_ca)
            context = serving(Renewed(files, lambda: server_context(*files)))
            await self._runner.setup()
            self.port = self._listen(context)
            write_atomic(self._options.port_file, str(self.port).encode(), is_durable=False)
        except OSError as error:
            log.error("node endpoint not served, no logs, exec or port-forward error=%s", error)

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()

    def _listen(self, context: ssl.SSLContext) -> int:
        """Bind the configured port; else the one used before the restart, or any if it is taken."""
        if self._options.port:
            return self._bind(self._options.port, context)
        with contextlib.suppress(OSError):
            return self._bind(self._retained_port(), context)
        return self._bind(0, context)

    def _retained_port(self) -> int:
        """Return the port used before the restart, or 0."""
        try:
            port = int(self._options.port_file.read_text())
        except (OSError, ValueError):
            return 0
        return port if 0 < port <= MAX_PORT else 0

    def _bind(self, port: int, context: ssl.SSLContext) -> int:
        listener = Listener(
            ListenerOptions(self._options.host, port, context, self._server),
            UnauthenticatedConnections(UnauthenticatedLimits()),
        )
        listener.start()
        self._listener = listener
        return listener.port

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request that `access` admits."""
        try:
            await self._access(request)
            parts = request.rel_url.parts
            page = parts[1] if len(parts) > 1 else ""
            handler, methods = self._routes.get(page), METHODS.get(page)
            if methods and request.method not in methods:
                return web.Response(text="Method Not Allowed", status=405, headers={"Allow": ", ".join(methods)})
            if handler is None:
                raise StreamTargetMissing(f"the node serves {', '.join(sorted(self._routes))}, not {request.path!r}")
            return await handler(request, list(parts[2:]))
        except EndpointError as error:
            return web.Response(text=str(error), status=error.http)
        except ConnectionError:
            return web.Response(status=499)
