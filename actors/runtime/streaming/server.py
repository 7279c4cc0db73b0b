"""HTTP server behind the URLs of Exec, Attach and PortForward: websockets and SPDY on loopback.

It listens from the first of these calls on. A URL's token is the only credential, so it is long, valid once and for a
minute, and returned only to callers of the runtime's socket, which belongs to root or the owner.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from typing import Generic, TypeVar

from aiohttp import web

from actors.runtime.model.errors import StateNotWritten, TooManyTickets
from actors.runtime.streaming.port_forward import PortForward, run_port_forward
from actors.runtime.streaming.sessions import Attach, Exec, run_attach, run_exec
from protocols.serving import (
    BoundedServer,
    Limits,
    Listener,
    ListenerOptions,
    UnauthenticatedConnections,
    mark_authenticated,
)
from protocols.streams.channels import CHANNEL_PROTOCOLS, ERROR, LARGEST_MESSAGE, PING_S, RESIZE, STDIN, TUNNEL
from protocols.streams.join import Socket
from protocols.streams.spdy.channels import OFFERED, SpdyChannels
from protocols.streams.spdy.upgrade import FORWARD, VERSION_HEADER, Spdy, offered, upgrade, wants_spdy

VALID_S = 60.0
MOST = 1000
T = TypeVar("T")


class Tickets(Generic[T]):
    """`clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[str, tuple[float, T]] = {}

    def give(self, what: T) -> str:
        """The token. Raises TooManyTickets."""
        now = self._clock()
        self._open = {token: entry for token, entry in self._open.items() if entry[0] > now}
        if len(self._open) >= MOST:
            raise TooManyTickets(f"{MOST} streams were asked for and not opened; try again in a minute")
        token = secrets.token_urlsafe(32)
        self._open[token] = (now + VALID_S, what)
        return token

    def take(self, token: str) -> T | None:
        """None when it was never given, was used or is too old."""
        until, what = self._open.pop(token, (0.0, None))
        return what if until > self._clock() else None


HOST = "127.0.0.1"
CLOSE_S = 0.2
IDLE_S = 75.0
What = Exec | Attach | PortForward


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
        protocols = (TUNNEL,) if isinstance(what, PortForward) else CHANNEL_PROTOCOLS
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
    protocol = FORWARD if isinstance(what, PortForward) else OFFERED
    if protocol not in offered(request):
        return web.Response(status=400, text=f"offer protocol {protocol} in {VERSION_HEADER}\n")
    wire = upgrade(request, protocol)
    client = Spdy(wire) if isinstance(what, PortForward) else SpdyChannels(wire)
    with contextlib.suppress(ConnectionError):
        if not isinstance(client, SpdyChannels) or await client.open(_channels(what)):
            await _run(client, what)
            await client.close()
    return client.answer


def _channels(what: What) -> set[int]:
    """What the client is going to open."""
    if isinstance(what, PortForward):
        return set()
    terminal = what.terminal if isinstance(what, Exec) else what.container.config.tty
    return {ERROR, *what.outputs} | ({STDIN} if what.stdin else set()) | ({RESIZE} if terminal else set())


async def _run(socket: Socket, what: What) -> None:
    match what:
        case Exec():
            await run_exec(socket, what)
        case Attach():
            await run_attach(socket, what)
        case PortForward():
            await run_port_forward(socket, what)
