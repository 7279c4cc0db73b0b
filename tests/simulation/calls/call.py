"""Stands for grpc.aio's calls of a client: one reply, or a stream of them."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

import grpc

from tests.simulation.calls.server import SimRpc

if TYPE_CHECKING:
    from tests.simulation.calls.channel import SimChannel

Serializer = Callable[[Any], Any]
Pairs = tuple[tuple[str, str | bytes], ...]


class SimCall:
    """A call from its begin to its status. It has ended once `_status` is set."""

    def __init__(
        self,
        channel: "SimChannel",
        path: str,
        request: bytes,
        deserializer: Serializer | None,
        *,
        timeout: float | None = None,
        metadata: Iterable[tuple[str, str | bytes]] | None = None,
        wait_for_ready: bool | None = None,
    ) -> None:
        self._channel, self._path, self._request, self._deserializer = channel, path, request, deserializer
        self._metadata: Pairs = tuple(metadata or ())
        self._status: tuple[grpc.StatusCode, str] | None = None
        self._cancelled = False
        self._rpc: SimRpc | None = None
        self._loop = channel.process.loop
        self._deadline = None if timeout is None else self._loop.time() + timeout
        self._headers: asyncio.Future[Pairs] = self._loop.create_future()
        self._arrived = asyncio.Event()
        self._replies: deque[bytes] = deque()
        self._callbacks: list[Callable[[Any], None]] = []
        self._timer = None if timeout is None else self._loop.call_later(max(0.0, timeout), self._expired)
        self.number = 0
        self.number = channel.begin(self)

    def send(self) -> None:
        """Send it to the server. Called by the channel once it is ready."""
        connection = self._channel.connection
        assert connection is not None
        self._rpc = SimRpc(connection, self, self._path, self._request, self._metadata, self._deadline)
        rpc = self._rpc
        connection.to_server(self._request, lambda: connection.server.begin(rpc))

    # what arrives; in turns of the client's process

    def opened(self, headers: Pairs) -> None:
        if not self._headers.done():
            self._headers.set_result(headers)

    def replied(self, reply: bytes) -> None:
        if self._status is None:
            self.opened(())
            self._replies.append(reply)
            self._arrived.set()

    def finish(self, code: grpc.StatusCode, details: str) -> None:
        """End the call; the first status counts."""
        if self._status is not None:
            return
        self._status = code, details
        if self._timer is not None:
            self._timer.cancel()
        self._channel.forget(self.number, self)
        self.opened(())
        self._arrived.set()
        for callback in self._callbacks:
            self._loop.call_soon(callback, self)

    def _expired(self) -> None:
        if self._status is None:
            self._withdraw()
            self.finish(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")

    def _withdraw(self) -> None:
        """Tell the server that nobody waits any more."""
        if (rpc := self._rpc) is not None:
            rpc.connection.to_server(b"", rpc.withdrawn)

    # what product code uses

    def cancel(self) -> bool:
        if self._status is not None:
            return False
        self._cancelled = True
        self._replies.clear()
        self._withdraw()
        self.finish(grpc.StatusCode.CANCELLED, "Locally cancelled by application!")
        return True

    def cancelled(self) -> bool:
        return self._status is not None and self._status[0] is grpc.StatusCode.CANCELLED

    def done(self) -> bool:
        return self._status is not None

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        if self._status is not None:
            callback(self)
        else:
            self._callbacks.append(callback)

    def time_remaining(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - self._loop.time())

    async def initial_metadata(self) -> grpc.aio.Metadata:
        return grpc.aio.Metadata(*await asyncio.shield(self._headers))

    async def code(self) -> grpc.StatusCode:
        return (await self._ended())[0]

    async def details(self) -> str:
        return (await self._ended())[1]

    async def _ended(self) -> tuple[grpc.StatusCode, str]:
        while self._status is None:
            self._arrived.clear()
            await self._arrived.wait()
        return self._status

    async def _next(self) -> bytes | None:
        """Return the next reply, None after the last one. Cancelling who waits cancels the call, as in grpc.aio."""
        try:
            while not self._replies and self._status is None:
                self._arrived.clear()
                await self._arrived.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        if not self._replies:
            return None
        reply = self._replies.popleft()
        if self._rpc is not None:
            self._rpc.consumed(len(reply))
        return reply

    def _raise_for_status(self) -> None:
        assert self._status is not None
        if self._cancelled:
            raise asyncio.CancelledError
        code, details = self._status
        if code is not grpc.StatusCode.OK:
            nothing = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(code, nothing, nothing, details)

    def _parsed(self, reply: bytes) -> Any:
        return reply if self._deserializer is None else self._deserializer(reply)


class SimUnaryCall(SimCall):
    def __await__(self) -> Generator[Any, None, Any]:
        return self._reply().__await__()

    async def _reply(self) -> Any:
        try:
            await self._ended()
        except asyncio.CancelledError:
            self.cancel()
            raise
        self._raise_for_status()
        return self._parsed(self._replies[0])


class SimStreamCall(SimCall):
    async def read(self) -> Any:
        reply = await self._next()
        if reply is None:
            self._raise_for_status()
            return grpc.aio.EOF
        return self._parsed(reply)

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (message := await self.read()) is not grpc.aio.EOF:
            yield message
