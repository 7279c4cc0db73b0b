"""A gRPC channel to the runtime: bytes in, bytes out. A broken channel is replaced, never waited for.

Calls and events have one each: the events' is replaced at each attempt, which must not end a StopContainer under way.
"""

from collections.abc import AsyncIterator

import grpc.aio

from actors.cri.errors import ListTooLong
from actors.cri.operations import EVENTS_PATH, Operation

LIMIT = 16 * 1024 * 1024
MOST_BYTES = 56 << 20
"""Of a list in pieces: what fits in one message of the bus."""
OPTIONS = [
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", LIMIT),
    ("grpc.max_send_message_length", LIMIT),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.client_idle_timeout_ms", 2**31 - 1),
    ("grpc.use_local_subchannel_pool", 1),
]
"""grpcio keeps subchannels, and their back-off, in a process-wide pool: a renewed channel must not inherit it."""


class RuntimeChannel:
    """`call` and `events` raise grpc.aio.AioRpcError."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._channel = grpc.aio.insecure_channel(target, options=OPTIONS)

    async def renew(self) -> None:
        """Leave a broken connection behind with its reconnect back-off."""
        old, self._channel = self._channel, grpc.aio.insecure_channel(self._target, options=OPTIONS)
        await old.close(grace=None)

    async def call(self, operation: Operation, request: bytes, timeout: float) -> bytes:
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
            operation.path, request_serializer=_as_is, response_deserializer=_as_is
        )
        return await method(request, timeout=min(timeout, operation.limit_s))

    async def pieces(self, operation: Operation, request: bytes, timeout: float) -> bytes:
        """All messages of a streamed answer, one after another."""
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(
            operation.path, request_serializer=_as_is, response_deserializer=_as_is
        )
        found: list[bytes] = []
        left = MOST_BYTES
        async for piece in messages(method(request, timeout=min(timeout, operation.limit_s))):
            found.append(piece)
            left -= len(piece)
            if left < 0:
                raise ListTooLong(f"the runtime's list is longer than {MOST_BYTES >> 20} MiB; remove what nobody needs")
        return b"".join(found)

    def events(self) -> "grpc.aio.UnaryStreamCall[bytes, bytes]":
        """Open GetContainerEvents; the empty request is zero bytes."""
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(
            EVENTS_PATH, request_serializer=_as_is, response_deserializer=_as_is
        )
        return method(b"")

    async def close(self) -> None:
        await self._channel.close(grace=None)


async def messages(call: "grpc.aio.UnaryStreamCall[bytes, bytes]") -> AsyncIterator[bytes]:
    """Messages of an open stream until its clean end."""
    while True:
        message = await call.read()
        if not isinstance(message, bytes):
            return  # grpc.aio.EOF
        yield message


def _as_is(message: bytes) -> bytes:
    return message
