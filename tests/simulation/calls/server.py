"""Stands for grpc.aio.Server: sockets, handlers, a task for each call, and an end with or without grace."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import grpc

from tests.simulation.calls.sockets import unlink

if TYPE_CHECKING:
    from tests.simulation.calls.connection import Connection
    from tests.simulation.calls.sockets import Sockets
    from tests.simulation.world.process import Process

Pairs = tuple[tuple[str, str | bytes], ...]


class Caller(Protocol):
    """The client's side of a call."""

    def opened(self, headers: Pairs) -> None: ...
    def replied(self, reply: bytes) -> None: ...
    def finish(self, code: grpc.StatusCode, details: str) -> None: ...


class Details(grpc.HandlerCallDetails):
    def __init__(self, method: str, metadata: Pairs) -> None:
        self.method, self.invocation_metadata = method, metadata


class SimRpc:
    """The server's side of a call; also its ServicerContext."""

    def __init__(
        self,
        connection: "Connection",
        caller: Caller,
        path: str,
        request: bytes,
        metadata: Pairs,
        deadline: float | None,
    ) -> None:
        self.connection, self.path, self.request = connection, path, request
        self.task: asyncio.Task[None] | None = None
        self.handler: Any = None
        self._caller, self._metadata = caller, metadata
        self._left = None if deadline is None else deadline - connection.here.process.loop.time()
        self._deadline: float | None = None
        self._opened = self.ended = self._gone = False
        self._unread = 0
        """Bytes that the client has not read."""
        self._room = asyncio.Event()
        self._code, self._details = grpc.StatusCode.OK, ""
        self._callbacks: list[Any] = []

    def started(self) -> None:
        """Count the client's time left from here on, as gRPC sends it."""
        if self._left is not None:
            self._deadline = self.connection.server.process.loop.time() + self._left

    # in turns of the server's process

    def withdrawn(self) -> None:
        """The client has cancelled, is too late, or gone."""
        self._gone = True
        if self.task is not None and not self.ended:
            self.task.cancel()

    def end(self, code: grpc.StatusCode, details: str) -> None:
        """Send the status."""
        if self.ended:
            return
        self.ended = True
        caller = self._caller
        self.connection.to_client(details.encode(), lambda: caller.finish(code, details))
        for callback in self._callbacks:
            callback(self)

    def reply(self, message: bytes) -> None:
        sockets = self.connection.sockets
        message = sockets.spoil(self.connection.server.process.name, message)
        self._unread += len(message)
        caller = self._caller
        self.connection.to_client(message, lambda: caller.replied(message))

    # in a turn of the client's process

    def consumed(self, size: int) -> None:
        """The client has read a message: the server may write more once it hears of it."""
        self.connection.to_server(b"", lambda: self._window(size))

    def _window(self, size: int) -> None:
        self._unread -= size
        self._room.set()

    # grpc.aio.ServicerContext

    async def write(self, message: Any) -> None:
        if self._gone or self.ended:
            raise grpc.aio.UsageError("RPC already finished.")
        await self.send_initial_metadata(())
        self.reply(_bytes(self.handler.response_serializer, message))
        while self._unread > self.connection.sockets.window:
            self._room.clear()
            await self._room.wait()

    async def send_initial_metadata(self, initial_metadata: Iterable[tuple[str, str | bytes]]) -> None:
        if not self._opened:
            self._opened = True
            headers, caller = tuple(initial_metadata), self._caller
            self.connection.to_client(repr(headers).encode(), lambda: caller.opened(headers))

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> NoReturn:
        self._code, self._details = code, details
        raise grpc.aio.AbortError("Locally aborted.")

    def invocation_metadata(self) -> Pairs:
        return self._metadata

    def peer(self) -> str:
        return "unix:"

    def time_remaining(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - asyncio.get_running_loop().time())

    def cancelled(self) -> bool:
        return self._gone

    def done(self) -> bool:
        return self.ended

    def add_done_callback(self, callback: Any) -> None:
        self._callbacks.append(callback)

    @property
    def status(self) -> tuple[grpc.StatusCode, str]:
        return self._code, self._details


class SimServer:
    """A server that listens as soon as it is bound."""

    def __init__(self, sockets: "Sockets", process: "Process", maximum_concurrent_rpcs: int | None = None) -> None:
        self._sockets, self.process, self._most = sockets, process, maximum_concurrent_rpcs
        self._handlers: list[Any] = []
        self._paths: list[Path] = []
        self._connections: dict[Connection, None] = {}
        self._rpcs: dict[SimRpc, None] = {}
        self.listening = False
        process.ends[self] = None

    # what product code uses

    def add_generic_rpc_handlers(self, handlers: Iterable[Any]) -> None:
        self._handlers += handlers

    def add_insecure_port(self, address: str) -> int:
        path = Path("/" + address.removeprefix("unix:").lstrip("/"))
        self._sockets.bind(path, self)
        self._paths.append(path)
        self.listening = True
        return 1

    async def start(self) -> None: ...

    async def stop(self, grace: float | None) -> None:
        """Accept nothing more; calls have the grace to end, then they are cancelled."""
        self._close_sockets()
        if grace and self._rpcs:
            tasks = [rpc.task for rpc in self._rpcs if rpc.task is not None]
            await asyncio.wait(tasks, timeout=grace)
        for rpc in list(self._rpcs):
            rpc.withdrawn()  # first: the task of a call that has ended is not cancelled
            rpc.end(grpc.StatusCode.UNAVAILABLE, "Server is shutting down")
        for connection in list(self._connections):
            connection.close_by_server()

    def _close_sockets(self) -> None:
        """gRPC removes what is at its paths, even if another server has bound it since."""
        self.listening = False
        self.process.ends.pop(self, None)
        for path in self._paths:
            unlink(path)
        self._paths.clear()

    def die(self) -> None:
        """The files stay; nobody is behind them."""
        self.listening = False

    # connections and calls

    def accepted(self, connection: "Connection") -> None:
        self._connections[connection] = None
        if not self.listening:
            connection.close_by_server()

    def disconnected(self, connection: "Connection") -> None:
        self._connections.pop(connection, None)
        for rpc in list(self._rpcs):
            if rpc.connection is connection:
                rpc.withdrawn()

    def begin(self, rpc: SimRpc) -> None:
        """Find the handler and run it in a task of its own."""
        rpc.started()
        if not self.listening:
            return rpc.end(grpc.StatusCode.UNAVAILABLE, "Server is shutting down")
        if self._most is not None and len(self._rpcs) >= self._most:
            return rpc.end(grpc.StatusCode.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!")
        details = Details(rpc.path, rpc._metadata)
        rpc.handler = next((found for handler in self._handlers if (found := handler.service(details))), None)
        if rpc.handler is None:
            return rpc.end(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        self._rpcs[rpc] = None
        rpc.task = self.process.loop.create_task(self._run(rpc), name=f"rpc {rpc.path}")
        return None

    async def _run(self, rpc: SimRpc) -> None:
        try:
            request = rpc.request if (parse := rpc.handler.request_deserializer) is None else parse(rpc.request)
            if rpc.handler.response_streaming:
                await self._stream(rpc, request)
            else:
                await self._answer(rpc, request)
            rpc.end(*rpc.status)
        except grpc.aio.AbortError:
            rpc.end(*rpc.status)
        except asyncio.CancelledError:
            rpc.end(grpc.StatusCode.CANCELLED, "RPC was cancelled")
        except Exception as error:
            self._sockets.failed(self.process, rpc.path, error)
            rpc.end(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}")
        finally:
            self._rpcs.pop(rpc, None)

    async def _answer(self, rpc: SimRpc, request: Any) -> None:
        reply = await rpc.handler.unary_unary(request, rpc)
        await rpc.send_initial_metadata(())
        rpc.reply(_bytes(rpc.handler.response_serializer, reply))

    async def _stream(self, rpc: SimRpc, request: Any) -> None:
        messages = rpc.handler.unary_stream(request, rpc)
        if not hasattr(messages, "__aiter__"):
            await messages
            return
        async for message in messages:
            await rpc.write(message)
        await rpc.send_initial_metadata(())


def _bytes(serializer: Any, message: Any) -> bytes:
    return bytes(message if serializer is None else serializer(message))
