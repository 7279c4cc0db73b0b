"""A connection to the runtime: bytes in, bytes out. A broken one is replaced, never waited for.

Calls and events have one each: the events' is replaced at each attempt, which must not end a StopContainer under way.
It is HTTP/2 of our own: the threads of gRPC's library woke 24 times a second, which was a third of what an idle node
costs.
"""

import asyncio

from actors.cri.errors import ListTooLong
from actors.cri.operations import EVENTS_PATH, Operation
from protocols.http2.calls import Calls, ServerStream, rpc_error
from protocols.http2.line import Place

LIMIT = 16 * 1024 * 1024
MOST_BYTES = 56 << 20
"""Of a list in pieces: what fits in one message of the bus."""


class RuntimeChannel:
    """`call`, `pieces` and `events` raise grpc.aio.AioRpcError."""

    def __init__(self, target: str) -> None:
        self._place = Place(path=target.removeprefix("unix:").removeprefix("//"), largest=LIMIT)
        self._calls = Calls(self._place)

    def renew(self) -> None:
        """Leave a broken connection behind."""
        old, self._calls = self._calls, Calls(self._place)
        old.close()

    async def call(self, operation: Operation, request: bytes, timeout: float) -> bytes:
        return await self._calls.unary(operation.path, request, min(timeout, operation.limit_s))

    async def pieces(self, operation: Operation, request: bytes, timeout: float) -> bytes:
        """All messages of a streamed answer, one after another."""
        try:
            async with asyncio.timeout(min(timeout, operation.limit_s)):
                stream = await self._calls.stream(operation.path, request)
                try:
                    return await _joined(stream)
                finally:
                    stream.cancel()
        except TimeoutError:
            raise rpc_error("DEADLINE_EXCEEDED", "Deadline Exceeded") from None

    async def events(self) -> ServerStream:
        """Open GetContainerEvents; the empty request is zero bytes."""
        return await self._calls.stream(EVENTS_PATH, b"")

    def close(self) -> None:
        self._calls.close()


async def _joined(stream: ServerStream) -> bytes:
    found: list[bytes] = []
    left = MOST_BYTES
    while (piece := await stream.read()) is not None:
        found.append(piece)
        left -= len(piece)
        if left < 0:
            raise ListTooLong(f"the runtime's list is longer than {MOST_BYTES >> 20} MiB; remove what nobody needs")
    return b"".join(found)
