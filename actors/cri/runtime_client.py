"""gRPC client of the runtime: unary calls, lists in pieces, and the event stream, as bytes.

Calls and events have a channel each: the events' is replaced at each attempt, which must not end a StopContainer that
is under way.
"""

from enum import Enum

import grpc
import grpc.aio

from actors.cri.operations import EVENTS_PATH, STREAMED, Operation
from protocols.errors import NodeplaneError
from protocols.wire import cri_pb2
from protocols.wire.methods import unix_channel


class ListTooLong(NodeplaneError, http=507, grpc="RESOURCE_EXHAUSTED"):
    """Raised when a list that the runtime sends in pieces exceeds the limit of one answer."""


MOST_BYTES = 56 << 20
"""Bytes of a list in pieces; fits in one message of the bus."""
RECONNECT = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", 3000),  # gRPC's deadline of an attempt to connect, in spite of its name
)


class RuntimeChannel:
    """`call`, `pieces` and the calls of `events` raise grpc.aio.AioRpcError."""

    def __init__(self, target: str) -> None:
        self._socket = target.removeprefix("unix:").removeprefix("//")
        self._channel = unix_channel(self._socket, *RECONNECT)

    async def renew(self) -> None:
        """Leave a broken connection behind, with its back-off."""
        old, self._channel = self._channel, unix_channel(self._socket, *RECONNECT)
        await old.close()

    async def call(self, operation: Operation, request: bytes, timeout: float) -> bytes:
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(operation.path)
        return await method(request, timeout=min(timeout, operation.limit_s))

    async def pieces(self, operation: Operation, request: bytes, timeout: float) -> bytes:
        """Return all messages of a streamed answer, concatenated."""
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(operation.path)
        call = method(request, timeout=min(timeout, operation.limit_s))
        found: list[bytes] = []
        left = MOST_BYTES
        async for piece in call:
            found.append(piece)
            left -= len(piece)
            if left < 0:
                call.cancel()
                raise ListTooLong(f"the runtime's list is longer than {MOST_BYTES >> 20} MiB; remove unused containers")
        return b"".join(found)

    def events(self) -> "grpc.aio.UnaryStreamCall[bytes, bytes]":
        """Open GetContainerEvents; the empty request is zero bytes."""
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(EVENTS_PATH)
        return method(b"")

    async def disconnected(self) -> None:
        """Wait until the connection ends; return at once if there is none."""
        if (state := self._channel.get_state()) is grpc.ChannelConnectivity.READY:
            await self._channel.wait_for_state_change(state)

    async def close(self) -> None:
        await self._channel.close()


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
