"""Where the URLs of Exec, Attach and PortForward lead: websockets on loopback, opened at the first of these calls.

Whoever has a token may use it, so a token is long, good once and for a minute; it goes only to callers of the runtime's
socket, which is root's or the owner's alone.
"""

import asyncio
import contextlib

from aiohttp import web

from actors.runtime.model.errors import StateNotWritten
from actors.runtime.streaming import attaching, forwarding, running
from actors.runtime.streaming.tickets import Tickets
from protocols.serving import (
    BoundedServer,
    Limits,
    Listener,
    ListenerOptions,
    UnauthenticatedConnections,
    mark_authenticated,
)
from protocols.streams.channels import (
    CHANNEL_PROTOCOLS,
    ERROR,
    LARGEST_MESSAGE,
    PING_S,
    RESIZE,
    STDIN,
    TUNNEL,
)
from protocols.streams.join import Socket
from protocols.streams.spdy.channels import OFFERED, SpdyChannels
from protocols.streams.spdy.upgrade import FORWARD, VERSION_HEADER, Spdy, offered, upgrade, wants_spdy

HOST = "127.0.0.1"
CLOSE_S = 0.2
IDLE_S = 75.0
What = running.Exec | attaching.Attach | forwarding.PortForward


class StreamServer:
    def __init__(self) -> None:
        self._tickets: Tickets[What] = Tickets(asyncio.get_running_loop().time)
        self._server = BoundedServer(
            self._serve, authenticated_timeout=IDLE_S, handler_cancellation=True, access_log=None
        )
        self._runner = web.ServerRunner(self._server, handle_signals=False, shutdown_timeout=CLOSE_S)
        self._listener: Listener | None = None
        self._starting = asyncio.Lock()
        self._address = ""
        self.port = 0
        """0 until the first URL was asked for."""

    async def url(self, what: What) -> str:
        """Good once, for a minute. Raises TooManyTickets, StateNotWritten."""
        async with self._starting:
            if not self._address:
                await self._start()
        return f"{self._address}/{type(what).__name__.lower()}/{self._tickets.give(what)}"

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()

    async def _start(self) -> None:
        try:
            await self._runner.setup()
            listener = Listener(ListenerOptions(HOST, 0, None, self._server), UnauthenticatedConnections(Limits()))
            listener.start()
        except OSError as error:
            raise StateNotWritten(f"cannot listen on {HOST}: {error.strerror}") from None
        self._listener, self.port = listener, listener.port
        self._address = f"http://{HOST}:{self.port}"

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        what = self._tickets.take(request.path.rpartition("/")[2])
        if what is None:
            return web.Response(status=404, text="no such stream, or it was opened before\n")
        mark_authenticated(request)
        if wants_spdy(request):
            return await _bare(request, what)
        protocols = (TUNNEL,) if isinstance(what, forwarding.PortForward) else CHANNEL_PROTOCOLS
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return web.Response(status=400, text=f"use a websocket with protocol {' or '.join(protocols)}, or SPDY\n")
        socket = web.WebSocketResponse(
            protocols=protocols, compress=False, max_msg_size=LARGEST_MESSAGE, heartbeat=PING_S
        )
        await socket.prepare(request)
        with contextlib.suppress(ConnectionError):
            await _run(socket, what)
            await socket.close()
        return socket


async def _bare(request: web.BaseRequest, what: What) -> web.StreamResponse:
    """SPDY without a websocket, as crictl speaks it unless told otherwise."""
    protocol = FORWARD if isinstance(what, forwarding.PortForward) else OFFERED
    if protocol not in offered(request):
        return web.Response(status=400, text=f"offer protocol {protocol} in {VERSION_HEADER}\n")
    wire = upgrade(request, protocol)
    client = Spdy(wire) if isinstance(what, forwarding.PortForward) else SpdyChannels(wire)
    with contextlib.suppress(ConnectionError):
        if not isinstance(client, SpdyChannels) or await client.open(_channels(what)):
            await _run(client, what)
            await client.close()
    return client.answer


def _channels(what: What) -> set[int]:
    """What the client is going to open."""
    if isinstance(what, forwarding.PortForward):
        return set()
    terminal = what.terminal if isinstance(what, running.Exec) else what.container.config.tty
    return {ERROR, *what.outputs} | ({STDIN} if what.stdin else set()) | ({RESIZE} if terminal else set())


async def _run(socket: Socket, what: What) -> None:
    match what:
        case running.Exec():
            await running.run(socket, what)
        case attaching.Attach():
            await attaching.run(socket, what)
        case forwarding.PortForward():
            await forwarding.run(socket, what)
