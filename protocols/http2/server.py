"""A gRPC server on a unix socket for methods with one request each: the sockets and tasks around ServerSession.

Without gRPC's threads a call costs a third. Bounds: CONNECTIONS clients, RUNNING calls of all of them.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from socket import socket

import msgspec

from protocols.http2.frames import BadHttp2
from protocols.http2.server_session import Request, ServerSession
from protocols.process.deadlines import Deadlines
from protocols.process.tasks import Tasks, report, wait_set

CONNECTIONS = 256
RUNNING = 8192
"""Calls that run at once; a call may outlive the client that gave it up."""
AHEAD = 256 << 10
"""Bytes of a stream that wait for the client before the next message is made."""

Failed = tuple[str, str]
"""Name of a gRPC code, and a text."""


class Method(msgspec.Struct, frozen=True):
    """A method with one answer or many: exactly one of `unary` and `stream` is set. Messages are bytes."""

    unary: Callable[[bytes], Awaitable[bytes]] | None = None
    stream: Callable[[bytes], AsyncGenerator[bytes, None]] | None = None
    """Called before the client learns that the call is accepted."""
    cancelled: bool = False
    """True if the call ends with its caller or at its deadline; others run to completion unheard."""


class GrpcServerOptions(msgspec.Struct, frozen=True):
    """Methods that are served, and bounds of a client."""

    methods: dict[str, Method]
    """By path, /SERVICE/METHOD."""
    failed: Callable[[str, Exception], Failed]
    """Turn an exception of the method of a path into code and text."""
    largest: int
    """Bytes of one request."""


class GrpcServer:
    """Serves until `close`; a client that is not served any more sees its calls cancelled."""

    def __init__(self, options: GrpcServerOptions) -> None:
        self.options = options
        self.tasks = Tasks()
        self.deadlines = Deadlines()
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._empty = asyncio.Event()
        """Set while there is no client."""
        self._empty.set()

    async def start(self, listening: socket) -> None:
        """Serve on a socket that is bound."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: _Connection(self), sock=listening)

    async def close(self, grace: float) -> None:
        """Accept no further call, wait at most `grace` seconds for those under way, then end them."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.go_away()
        await wait_set(self._empty, grace)
        for connection in list(self._connections):
            connection.close()
        self.deadlines.close()
        await self.tasks.close()

    def join(self, connection: "_Connection") -> bool:
        """Take a client on; False if there are too many."""
        if len(self._connections) >= CONNECTIONS:
            return False
        self._connections.add(connection)
        self._empty.clear()
        return True

    def leave(self, connection: "_Connection") -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()


class _Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: GrpcServer) -> None:
        self._server = server
        self._session = ServerSession(self._on_request, self._on_cancel, server.options.largest)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, tuple[Method, asyncio.Task[None]]] = {}
        self._soon = False
        self._writable = asyncio.Event()
        """Set whenever a stream that waits for the client may go on."""
        self._full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a socket's is one for both directions
        if self._server.join(self):
            self._flush()
        else:
            transport.close()

    def data_received(self, data: bytes) -> None:
        try:
            self._session.feed(data)
        except BadHttp2:
            self.close()
            return
        if self._session.pressing or self._session.waiting:
            self._flush_soon()
        self._writable.set()

    def pause_writing(self) -> None:
        """Read nothing from a client that does not read: its calls and pings would fill memory."""
        self._full = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._full = False
        self._writable.set()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._server.leave(self)
        for id in list(self._calls):
            self._on_cancel(id)

    def go_away(self) -> None:
        self._session.go_away()
        self._flush()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _on_request(self, request: Request) -> None:
        method = self._server.options.methods.get(request.path)
        if method is None:
            self._session.end(request.id, "UNIMPLEMENTED", f"unknown method {request.path}")
        elif len(self._server.tasks) >= RUNNING:
            self._session.end(request.id, "RESOURCE_EXHAUSTED", "too many calls are running; try again later")
        else:
            task = self._server.tasks.start(self._run(request, method), "runtime call", request.path, self._broken)
            self._calls[request.id] = (method, task)
            task.add_done_callback(lambda _: self._calls.pop(request.id))

    def _on_cancel(self, id: int) -> None:
        """Cancel a call that ends with its caller."""
        if (call := self._calls.get(id)) and call[0].cancelled:
            call[1].cancel()

    def _expire(self, id: int) -> None:
        self._session.end(id, "DEADLINE_EXCEEDED", "Deadline Exceeded")
        self._flush_soon()
        self._on_cancel(id)

    def _broken(self, name: str, error: BaseException) -> None:
        report(name, error)
        self.close()

    async def _run(self, request: Request, method: Method) -> None:
        deadlines, code, text, number = self._server.deadlines, "OK", "", 0
        if request.timeout is not None:
            number = deadlines.add(request.timeout, self._expire, request.id)
        try:
            await self._answer(request, method)
        except Exception as error:
            code, text = self._server.options.failed(request.path, error)
        finally:
            deadlines.remove(number)
        self._session.end(request.id, code, text)
        self._flush_soon()

    async def _answer(self, request: Request, method: Method) -> None:
        if method.unary is not None:
            self._session.message(request.id, await method.unary(request.message))
        elif method.stream is not None:
            messages = method.stream(request.message)
            self._session.begin(request.id)
            self._flush_soon()
            try:
                async for message in messages:
                    self._session.message(request.id, message)
                    self._flush_soon()
                    while self._full or self._session.pending(request.id) > AHEAD:
                        self._writable.clear()
                        await self._writable.wait()
            finally:
                await messages.aclose()

    def _flush_soon(self) -> None:
        """Write at the end of this turn of the loop: answers of one turn share a write."""
        if not self._soon:
            self._soon = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._soon = False
        data = self._session.take()
        if self._transport is None:
            return
        if data:
            self._transport.write(data)
        if self._session.draining and not self._session.busy:
            self._transport.close()
