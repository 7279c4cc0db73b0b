"""Calls to one server: a connection is opened when one is needed, also after it broke. Faults are those of grpc.aio."""

import asyncio
from collections import deque

import grpc
import grpc.aio

from protocols.http2.connection import Address, Http2Connection, dial

AHEAD = 256
"""Messages of a stream that wait here; further ones wait in the kernel."""


def rpc_error(code: str, text: str) -> grpc.aio.AioRpcError:
    found = grpc.StatusCode[code] if code in grpc.StatusCode.__members__ else grpc.StatusCode.UNKNOWN
    return grpc.aio.AioRpcError(found, grpc.aio.Metadata(), grpc.aio.Metadata(), text)


class ServerStream:
    """The answers of one call, one after another."""

    def __init__(self, calls: "Calls", number: int) -> None:
        self._calls, self._number = calls, number
        self._messages: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._end: tuple[str, str] | None = None
        self.begun = asyncio.Event()
        """Set once the server has accepted the call."""

    @property
    def done(self) -> bool:
        return self._end is not None

    async def read(self) -> bytes | None:
        """The next message, None at the clean end. Raises AioRpcError."""
        while not self._messages:
            if self._end is not None:
                if self._end[0] == "OK":
                    return None
                raise rpc_error(*self._end)
            self._calls.pause(False)
            self._more.clear()
            await self._more.wait()
        return self._messages.popleft()

    def cancel(self) -> None:
        if self._end is None:
            self._calls.drop(self._number)
            self._calls.cancel(self._number)
            self.end("CANCELLED", "cancelled here")

    def forget(self) -> None:
        """Drop the call, since its result has arrived and its end does not matter."""
        self._calls.drop(self._number)

    def hear(self, message: bytes) -> None:
        self.begun.set()
        self._messages.append(message)
        self._more.set()
        if len(self._messages) > AHEAD:
            self._calls.pause(True)

    def end(self, code: str, text: str) -> None:
        self._end = self._end or (code, text)
        self._more.set()


class Calls:
    """One connection at a time. What it carried fails with UNAVAILABLE when it breaks; the next call makes another."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: Http2Connection | None = None
        self._dialing = asyncio.Lock()
        self._number = 0
        self._open: dict[int, ServerStream] = {}

    async def unary(self, path: str, request: bytes, timeout: float) -> bytes:
        """Raises AioRpcError."""
        stream: ServerStream | None = None
        try:
            async with asyncio.timeout(timeout):
                stream = await self.stream(path, request)
                answer = await stream.read()
        except (TimeoutError, asyncio.CancelledError) as reason:
            if stream is not None:
                stream.cancel()
            if isinstance(reason, TimeoutError):
                raise rpc_error("DEADLINE_EXCEEDED", "Deadline Exceeded") from None
            raise
        if answer is None:
            raise rpc_error("INTERNAL", "the server sent no answer")
        stream.forget()
        return answer

    async def stream(self, path: str, request: bytes) -> ServerStream:
        """Raises AioRpcError UNAVAILABLE when there is no connection to be had."""
        connection = await self._connected()
        self._number += 1
        stream = self._open[self._number] = ServerStream(self, self._number)
        connection.send(self._number, path, request, last=True)
        return stream

    def drop(self, number: int) -> None:
        self._open.pop(number, None)

    def cancel(self, number: int) -> None:
        if self._connection is not None:
            self._connection.cancel(number)

    def pause(self, pause: bool) -> None:
        if self._connection is not None:
            self._connection.pause(pause)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def _connected(self) -> Http2Connection:
        async with self._dialing:
            if self._connection is None or self._connection.draining:
                try:
                    self._connection = await dial(self._address, self)
                except OSError as error:
                    raise rpc_error("UNAVAILABLE", f"cannot connect: {error}") from None
            return self._connection

    # callbacks of the connection

    def on_begun(self, number: int) -> None:
        if stream := self._open.get(number):
            stream.begun.set()

    def on_message(self, number: int, message: bytes) -> None:
        if stream := self._open.get(number):
            stream.hear(message)

    def on_end(self, number: int, code: str, text: str) -> None:
        if stream := self._open.pop(number, None):
            stream.end(code, text)

    def on_lost(self, connection: Http2Connection) -> None:
        """Forget the connection, unless it was replaced already."""
        if self._connection is connection:
            self._connection = None
