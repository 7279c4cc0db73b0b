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
from protocols.serving.connection import BoundedServer, mark_authenticated
from protocols.serving.listener import Listener, ListenerOptions
from protocols.serving.unauthenticated import UnauthenticatedConnections, UnauthenticatedLimits
from protocols.streams.accepting import (
    Accepted,
    ProtocolUnknown,
    accept_command,
    accept_forward,
    command_protocol,
    forward_protocol,
)
from protocols.streams.channels import ERROR, RESIZE, STDIN, TUNNEL
from protocols.streams.connections import Socket
from protocols.streams.port_channels import PortsInvalid, ports_of

HOST = "127.0.0.1"
CLOSE_S = 0.2
IDLE_S = 75.0
Stream = Exec | Attach | PortForward
VALID_S = 60.0
MOST = 1000
T = TypeVar("T")


class Tickets(Generic[T]):
    """One-time tokens, valid for a minute. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[str, tuple[float, T]] = {}

    def issue(self, stream: T) -> str:
        """Return a new token. Raises TooManyTickets."""
        now = self._clock()
        self._open = {token: entry for token, entry in self._open.items() if entry[0] > now}
        if len(self._open) >= MOST:
            raise TooManyTickets(f"{MOST} streams were asked for and not opened; try again in a minute")
        token = secrets.token_urlsafe(32)
        self._open[token] = (now + VALID_S, stream)
        return token

    def redeem(self, token: str) -> T | None:
        """Return the stream of a token; None if it is unknown, used or expired."""
        until, stream = self._open.pop(token, (0.0, None))
        return stream if until > self._clock() else None


class StreamServer:
    """Issues URLs and serves each once."""

    def __init__(self) -> None:
        self._tickets: Tickets[Stream] = Tickets(asyncio.get_running_loop().time)
        self._server = BoundedServer(
            self._serve, authenticated_timeout=IDLE_S, handler_cancellation=True, access_log=None
        )
        self._runner = web.ServerRunner(self._server, handle_signals=False, shutdown_timeout=CLOSE_S)
        self._listener: Listener | None = None
        self._starting = asyncio.Lock()
        self._address = ""
        self.port = 0
        """Port; 0 before the first URL."""

    async def url(self, stream: Stream) -> str:
        """Return a URL that is valid once, for a minute. Raises TooManyTickets, StateNotWritten."""
        async with self._starting:
            if not self._address:
                await self._start()
        return f"{self._address}/{type(stream).__name__.lower()}/{self._tickets.issue(stream)}"

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()

    async def _start(self) -> None:
        try:
            await self._runner.setup()
            listener = Listener(
                ListenerOptions(HOST, 0, None, self._server), UnauthenticatedConnections(UnauthenticatedLimits())
            )
            listener.start()
        except OSError as error:
            raise StateNotWritten(f"cannot listen on {HOST}: {error.strerror}") from None
        self._listener, self.port = listener, listener.port
        self._address = f"http://{HOST}:{self.port}"

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        stream = self._tickets.redeem(request.path.rpartition("/")[2])
        if stream is None:
            return web.Response(status=404, text="no such stream, or it was opened before\n")
        mark_authenticated(request)
        try:
            client = await _accept(request, stream)
        except (ProtocolUnknown, PortsInvalid) as error:
            return web.Response(status=400, text=f"{error}\n")
        with contextlib.suppress(ConnectionError):
            if client.socket is not None:
                await _run(client.socket, stream)
                await client.socket.close()
        return client.response


async def _accept(request: web.BaseRequest, stream: Stream) -> Accepted:
    """Raises ProtocolUnknown, PortsInvalid, ConnectionError."""
    if not isinstance(stream, PortForward):
        return await accept_command(request, command_protocol(request), _channels(stream))
    protocol = forward_protocol(request)
    tunnel = protocol.spdy or protocol.name == TUNNEL
    return await accept_forward(request, protocol, () if tunnel else ports_of(map(str, stream.ports)))


def _channels(stream: Stream) -> set[int]:
    """Return the channels that the client is going to open."""
    if isinstance(stream, PortForward):
        return set()
    terminal = stream.terminal if isinstance(stream, Exec) else stream.container.config.tty
    return {ERROR, *stream.outputs} | ({STDIN} if stream.stdin else set()) | ({RESIZE} if terminal else set())


async def _run(socket: Socket, stream: Stream) -> None:
    match stream:
        case Exec():
            await run_exec(socket, stream)
        case Attach():
            await run_attach(socket, stream)
        case PortForward():
            await run_port_forward(socket, stream)
