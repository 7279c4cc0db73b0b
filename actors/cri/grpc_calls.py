"""gRPC calls to the runtime over one HTTP/2 connection, opened when it is needed, also after it broke.

Without gRPC's threads and wake-ups: a call costs a third, an idle connection nothing. Errors are those of grpc.aio.
"""

import asyncio
from collections import deque
from typing import Protocol

from protocols.http2.connection import Address, Http2Connection, dial
from protocols.process.deadlines import Deadlines
from protocols.wire.methods import rpc_error

AHEAD, AHEAD_BYTES = 256, 16 << 20
"""Messages of a stream that wait here, and their bytes; further ones wait in the kernel."""
LATE = ("DEADLINE_EXCEEDED", "Deadline Exceeded")
"""Code and text of a call whose own deadline passed, as grpc.aio words it."""


class _Call(Protocol):
    def on_begun(self) -> None:
        """Note the headers of an answer that is no immediate error."""

    def on_message(self, message: bytes) -> None: ...

    def on_end(self, code: str, text: str) -> None: ...


class _UnaryCall:
    __slots__ = ("answer", "message")

    def __init__(self, answer: "asyncio.Future[bytes]") -> None:
        self.answer = answer
        self.message: bytes | None = None

    def on_begun(self) -> None:
        """Ignore headers: the answer follows."""

    def on_message(self, message: bytes) -> None:
        self.message = message

    def on_end(self, code: str, text: str) -> None:
        if self.answer.done():
            return
        if code == "OK" and self.message is not None:
            self.answer.set_result(self.message)
        else:
            code, text = (code, text) if code != "OK" else ("INTERNAL", "the runtime sent no answer")
            self.answer.set_exception(rpc_error(code, text))


class ServerStream:
    """The answers of one call, in order."""

    def __init__(self, calls: "GrpcCalls") -> None:
        self._calls = calls
        self.number = 0
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._more, self._begun = asyncio.Event(), asyncio.Event()
        self._end: tuple[str, str] | None = None

    def done(self) -> bool:
        return self._end is not None

    async def headers(self) -> None:
        """Wait until the runtime has accepted the call."""
        await self._begun.wait()

    async def read(self) -> bytes | None:
        """Return the next message, None at the clean end. Raises AioRpcError, with CANCELLED after cancel()."""
        while not self._messages:
            if self._end is not None:
                if self._end[0] == "OK":
                    return None
                raise rpc_error(*self._end)
            self._calls.pause(False)
            self._more.clear()
            await self._more.wait()
        message = self._messages.popleft()
        self._bytes -= len(message)
        return message

    def cancel(self) -> None:
        if self._end is None:
            self._calls.cancel(self.number)
            self.on_end("CANCELLED", "cancelled here")

    def on_begun(self) -> None:
        self._begun.set()

    def on_message(self, message: bytes) -> None:
        self._messages.append(message)
        self._bytes += len(message)
        self._more.set()
        if len(self._messages) > AHEAD or self._bytes > AHEAD_BYTES:
            self._calls.pause(True)

    def on_end(self, code: str, text: str) -> None:
        self._end = self._end or (code, text)
        self._more.set()
        self._calls.pause(False)  # other calls share the connection, and `read` resumes it only to wait


class GrpcCalls:
    """Calls that share a connection. When it breaks they fail with UNAVAILABLE; the next call opens another."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: Http2Connection | None = None
        self._dialing = asyncio.Lock()
        self._lost = asyncio.Event()
        self._number = 0
        self._open: dict[int, _Call] = {}
        self._deadlines = Deadlines()

    async def unary(self, path: str, request: bytes, timeout: float) -> bytes:
        """Return the answer. Raises AioRpcError."""
        connection = self._connection
        if connection is None or connection.draining:
            connection, timeout = await self._connected_within(timeout)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        call = _UnaryCall(answer)
        number = self._start(connection, path, request, call)
        end = self._deadlines.add(timeout, _expire, call)
        try:
            return await answer
        finally:
            self._deadlines.remove(end)
            self.cancel(number)

    async def stream(self, path: str, request: bytes) -> ServerStream:
        """Begin a call with many answers. Raises AioRpcError UNAVAILABLE without a connection."""
        connection = await self._connected()
        stream = ServerStream(self)
        stream.number = self._start(connection, path, request, stream)
        return stream

    def cancel(self, number: int) -> None:
        """Cancel a call; nothing happens when it has ended."""
        if self._open.pop(number, None) is not None and self._connection is not None:
            self._connection.cancel(number)

    def pause(self, pause: bool) -> None:
        """Leave further messages in the kernel, or take them again."""
        if self._connection is not None:
            self._connection.pause(pause)

    async def disconnected(self) -> None:
        """Wait until the connection ends; return at once if there is none."""
        if self._connection is not None:
            await self._lost.wait()

    def close(self) -> None:
        """Close the connection; its calls fail with UNAVAILABLE."""
        self._deadlines.close()
        if self._connection is not None:
            self._connection.close()

    def _start(self, connection: Http2Connection, path: str, request: bytes, call: _Call) -> int:
        self._number = number = self._number + 1
        self._open[number] = call
        connection.send(number, path, request, last=True)
        return number

    async def _connected_within(self, timeout: float) -> tuple[Http2Connection, float]:
        """Return a connection, and the seconds that are left."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            async with asyncio.timeout(timeout):
                connection = await self._connected()
        except TimeoutError:
            raise rpc_error(*LATE) from None
        return connection, deadline - loop.time()

    async def _connected(self) -> Http2Connection:
        async with self._dialing:
            if self._connection is None or self._connection.draining:
                try:
                    self._connection = await dial(self._address, self)
                except OSError as error:
                    raise rpc_error(
                        "UNAVAILABLE",
                        f"cannot connect to {self._address.path or self._address.host}: {error.strerror or error}",
                    ) from None
                self._lost.clear()
            return self._connection

    # callbacks of the connection

    def on_begun(self, number: int) -> None:
        if call := self._open.get(number):
            call.on_begun()

    def on_message(self, number: int, message: bytes) -> None:
        if call := self._open.get(number):
            call.on_message(message)

    def on_end(self, number: int, code: str, text: str) -> None:
        if call := self._open.pop(number, None):
            call.on_end(code, text)

    def on_lost(self, connection: Http2Connection) -> None:
        """Forget the connection, unless it was replaced already."""
        if self._connection is connection:
            self._connection = None
            self._lost.set()


def _expire(call: _UnaryCall) -> None:
    call.on_end(*LATE)
