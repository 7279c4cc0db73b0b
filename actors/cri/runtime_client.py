"""gRPC client of the runtime: unary calls, lists in pieces, and the event stream, as bytes.

Calls and events have a channel each: the events' is replaced at each attempt, which must not end a StopContainer that
is under way.
"""

import asyncio
from enum import Enum

import grpc
import grpc.aio

from actors.cri.grpc_calls import LATE, GrpcCalls, ServerStream
from actors.cri.operations import EVENTS_PATH, STREAMED, Operation
from protocols.errors import NodeplaneError
from protocols.http2.connection import Address
from protocols.wire import cri_pb2
from protocols.wire.methods import MAX_MESSAGE, rpc_error


class ListTooLong(NodeplaneError, http=507, grpc="RESOURCE_EXHAUSTED"):
    """Raised when a list that the runtime sends in pieces exceeds the limit of one answer."""


MOST_BYTES = 56 << 20
"""Bytes of a list in pieces; fits in one message of the bus."""


class RuntimeChannel:
    """`call`, `pieces`, and `events` with its stream raise grpc.aio.AioRpcError."""

    def __init__(self, target: str) -> None:
        self._address = Address(path=target.removeprefix("unix:").removeprefix("//"), largest=MAX_MESSAGE)
        self._calls = GrpcCalls(self._address)

    def renew(self) -> None:
        """Leave a broken connection behind."""
        old, self._calls = self._calls, GrpcCalls(self._address)
        old.close()

    async def call(self, operation: Operation, request: bytes, timeout: float) -> bytes:
        return await self._calls.unary(operation.path, request, min(timeout, operation.limit_s))

    async def pieces(self, operation: Operation, request: bytes, timeout: float) -> bytes:
        """Return all messages of a streamed answer, concatenated."""
        try:
            async with asyncio.timeout(min(timeout, operation.limit_s)):
                stream = await self._calls.stream(operation.path, request)
                try:
                    return await _joined(stream)
                finally:
                    stream.cancel()
        except TimeoutError:
            raise rpc_error(*LATE) from None

    async def events(self) -> ServerStream:
        """Open GetContainerEvents; the empty request is zero bytes."""
        return await self._calls.stream(EVENTS_PATH, b"")

    async def disconnected(self) -> None:
        """Wait until the connection ends; return at once if there is none."""
        await self._calls.disconnected()

    def close(self) -> None:
        self._calls.close()


async def _joined(stream: ServerStream) -> bytes:
    """Raises AioRpcError, ListTooLong."""
    pieces: list[bytes] = []
    left = MOST_BYTES
    while (piece := await stream.read()) is not None:
        pieces.append(piece)
        left -= len(piece)
        if left < 0:
            raise ListTooLong(f"the runtime's list is longer than {MOST_BYTES >> 20} MiB; remove unused containers")
    return b"".join(pieces)


PROBE_S = 5.0
UNKNOWN_ID = "0" * 64


class Streaming(Enum):
    """Support of lists in pieces by the runtime; UNKNOWN until the first attempt."""

    UNKNOWN = "unknown"
    YES = "yes"
    NO = "no"


class Lists:
    """Lists, from runtimes that can also stream them in pieces (KEP-5825).

    Whole lists cost less. After the first that exceeds one message, a list is always read in pieces.
    """

    def __init__(self, channel: RuntimeChannel) -> None:
        self._channel = channel
        self._long: set[str] = set()
        self.streaming = Streaming.UNKNOWN

    async def probe(self) -> None:
        """Find out if the runtime streams lists, with a filter that matches nothing."""
        filter_ = cri_pb2.PodSandboxFilter(id=UNKNOWN_ID)
        request = cri_pb2.ListPodSandboxRequest(filter=filter_).SerializeToString()
        try:
            await self._channel.pieces(STREAMED["ListPodSandbox"], request, PROBE_S)
            self.streaming = Streaming.YES
        except ListTooLong:  # without regard to the filter
            self.streaming = Streaming.YES
        except grpc.aio.AioRpcError as error:
            known = error.code() is grpc.StatusCode.UNIMPLEMENTED
            self.streaming = Streaming.NO if known else Streaming.UNKNOWN

    async def call(self, name: str, operation: Operation, request: bytes, timeout: float) -> bytes:
        """Raises grpc.aio.AioRpcError, ListTooLong."""
        if name in self._long and self.streaming is Streaming.YES:
            return await self._channel.pieces(STREAMED[name], request, timeout)
        try:
            return await self._channel.call(operation, request, timeout)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED or self.streaming is not Streaming.YES:
                raise
        self._long.add(name)
        return await self._channel.pieces(STREAMED[name], request, timeout)
